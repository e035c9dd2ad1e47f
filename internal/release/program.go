package main

import "fmt"

// program is a program that is released.
type program struct {
	name string // as its bill of materials has it
	// function says that it is a function of AWS Lambda, which reads the root of a zip.
	function bool
}

// functionSystem stands for the operating system in the names of a function's files.
const functionSystem = "lambda"

// programs are those that are released, by their packages.
var programs = map[string]program{
	ourStamp:                             {name: programName},
	ourModule + "/lambda/cmd/aggregator": {name: programName + "-aggregator", function: true},
}

// programOf is the program of a package.
func programOf(path string) (program, error) {
	p, ok := programs[path]
	if !ok {
		return program{}, fmt.Errorf("it is built from %q, which is no program that is released: see internal/release/program.go", path)
	}
	return p, nil
}

// system is what names its platform beside the architecture.
func (c *contents) system() string {
	if c.program.function {
		return functionSystem
	}
	return c.goos
}
