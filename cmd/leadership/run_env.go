package main

import (
	"slices"
	"strings"
)

// commandVariables are set for the command, and never inherited: the values of an outer run mean nothing to this one.
var commandVariables = []string{
	"LEADERSHIP_STORE", "LEADERSHIP_ELECTION", "LEADERSHIP_VALUE", "LEADERSHIP_TOKEN", "LEADERSHIP_READY_FD",
}

// commandEnv is the environment of the command: this process's, with the store, the election and the value.
func commandEnv(inherited []string, url, election, value string) []string {
	return append(electionEnv(inherited, url, election), "LEADERSHIP_VALUE="+value)
}

// warnOfClearPassword warns if the command does not get the URL.
func (a *app) warnOfClearPassword(url string) {
	if hasPassword(url) {
		a.warnf("the command does not get LEADERSHIP_STORE, since the URL shows a password: " +
			"use its option passwordenv=VARIABLE or passwordfile=FILE instead")
	}
}

// withoutClearPassword returns an environment without a URL that shows a password.
func withoutClearPassword(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		url, is := strings.CutPrefix(variable, "LEADERSHIP_STORE=")
		return is && hasPassword(url)
	})
}

// electionEnv adds the store and the election to an environment. A URL with a password in it is left out.
func electionEnv(inherited []string, url, election string) []string {
	env := slices.DeleteFunc(slices.Clone(inherited), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(commandVariables, name) || slices.Contains(managerVariables, name)
	})
	if !hasPassword(url) {
		env = append(env, "LEADERSHIP_STORE="+url)
	}
	return append(env, "LEADERSHIP_ELECTION="+election)
}
