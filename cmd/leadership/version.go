package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

type versionCmd struct {
	outputFlags
}

// versionFlag is the flag --version: as the subcommand version does, it prints the version, whatever else is given.
type versionFlag bool

// BeforeReset is called by kong before anything is checked.
func (versionFlag) BeforeReset(k *kong.Kong, a *app) error {
	err := (&versionCmd{}).Run(a)
	if err == nil {
		k.Exit(0)
	}
	return err
}

// Run implements the subcommand.
func (c *versionCmd) Run(a *app) error {
	version, revision := "(unknown)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	system := runtime.GOOS + "/" + runtime.GOARCH
	if c.JSON {
		return printJSON(a.out, struct {
			Version  string `json:"version"`
			Revision string `json:"revision,omitempty"`
			Go       string `json:"go"`
			System   string `json:"system"`
		}{version, revision, runtime.Version(), system})
	}
	_, err := fmt.Fprintf(a.out, "leadership %s %s %s\n", version, runtime.Version(), system)
	return err
}
