package main

import (
	"context"
	"io"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// programs are those that run no command: one takes longer to make than most commands to run.
var programs = sync.Pool{New: func() any { return newCLI() }}

// run runs a command on a program that has run others.
func run(ctx context.Context, args []string, out *term.Output, stderr io.Writer) int {
	p := programs.Get().(*cli)
	code := p.runCommand(ctx, args, out, stderr)
	p.forget()
	programs.Put(p)
	return code
}

// forget drops what the last command line left.
func (p *cli) forget() {
	p.commands = commands{}
	_ = kong.Visit(p.Model, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Application:
			node.Active = false
		case *kong.Node:
			node.Active = false
		case *kong.Value:
			node.Set, node.Active = false, false
		}
		return next(nil)
	})
}

// grammar is the program's, to be read.
var grammar = sync.OnceValue(func() *kong.Application { return newCLI().Model })

// parse reads a command line that is not run.
func parse(args []string) error {
	p := programs.Get().(*cli)
	defer func() { p.forget(); programs.Put(p) }()
	_, err := p.Parse(args)
	return err
}
