package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// confirmFlags let a script answer the question in advance.
type confirmFlags struct {
	Yes bool `short:"y" help:"Don't ask."`
}

// confirm says on stderr what is about to be done, and asks, unless --yes is given.
func (f confirmFlags) confirm(ctx context.Context, a *app, plan string) error {
	if f.Yes {
		return nil
	}
	if file, ok := a.in.(*os.File); !ok || !isatty.IsTerminal(file.Fd()) {
		return &failure{exitUsage, errors.New("it asks for confirmation, and stdin is no terminal"), "add --yes if you are sure"}
	}
	fmt.Fprintf(a.errs, "%s\nGo on? [y/N] ", plan)
	answer := make(chan string, 1)
	go func() { // ends with the program, if there is no answer
		text, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return &failure{code: exitNo, err: errors.New("nothing was done")}
	case <-ctx.Done():
		fmt.Fprintln(a.errs)
		return context.Cause(ctx)
	}
}
