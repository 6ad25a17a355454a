package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// config is a configuration file: flags and their values, for all subcommands or, below a subcommand's name, for that
// one:
//
//	store: etcd://10.0.0.1:2379/?ttl=10s
//	election: database/primary
//	run:
//	  again: true
type config struct {
	path     string
	flags    map[string]yaml.Node
	sections map[string]map[string]yaml.Node
}

// loadConfig loads the file at the path, or the default file if the path is empty. It returns nil if there is no file.
func loadConfig(path string) (*config, error) {
	if path != "" {
		return readConfig(path)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		c, err := readConfig(filepath.Join(dir, "leadership.yaml"))
		// HOME can be that of another user, as under sudo.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return c, err
		}
	}
	c, err := readConfig("/etc/leadership.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c, err
}

func readConfig(path string) (*config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	c := &config{path: path, flags: map[string]yaml.Node{}, sections: map[string]map[string]yaml.Node{}}
	var all map[string]yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&all); err != nil && !errors.Is(err, io.EOF) { // an empty file sets nothing
		return nil, c.wrong("%w", err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, c.wrong("it has more than one YAML document; only one is allowed")
	}
	for name, node := range all {
		if node.Kind != yaml.MappingNode {
			c.flags[name] = node
			continue
		}
		var section map[string]yaml.Node
		if err := node.Decode(&section); err != nil {
			return nil, c.wrong("%s: %w", name, err)
		}
		c.sections[name] = section
	}
	return c, nil
}

func (c *config) wrong(format string, args ...any) error {
	return fmt.Errorf("configuration file %s: %w", c.path, fmt.Errorf(format, args...))
}

// Validate implements kong.Resolver. It refuses names that are no flags, so that a typing error is noticed.
func (c *config) Validate(model *kong.Application) error {
	known := map[string]bool{}
	commands := map[string]map[string]bool{}
	for _, node := range model.Leaves(false) {
		flags := map[string]bool{}
		for _, f := range node.Flags {
			known[f.Name], flags[f.Name] = true, true
		}
		commands[node.Name] = flags
	}
	for name := range c.flags {
		if !known[name] {
			return c.wrong("%q is no flag of any subcommand", name)
		}
	}
	for section, flags := range c.sections {
		for name := range flags {
			switch {
			case commands[section] == nil:
				return c.wrong("%q is no subcommand", section)
			case !commands[section][name]:
				return c.wrong("%q is no flag of leadership %s", name, section)
			}
		}
	}
	return nil
}

// Resolve implements kong.Resolver. Kong sets flags from the environment before it asks resolvers, and would let the
// file win.
func (c *config) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if slices.ContainsFunc(flag.Envs, func(name string) bool { return os.Getenv(name) != "" }) {
		return nil, nil
	}
	node, ok := c.flags[flag.Name]
	if parent.Command != nil {
		if own, is := c.sections[parent.Command.Name][flag.Name]; is {
			node, ok = own, true
		}
	}
	if !ok || parent.Command == nil {
		return nil, nil
	}
	if node.Kind != yaml.ScalarNode {
		return nil, c.wrong("%s: a value is expected", flag.Name)
	}
	return node.Value, nil // as it is written
}
