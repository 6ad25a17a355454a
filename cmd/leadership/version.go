package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct {
	outputFlags
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
