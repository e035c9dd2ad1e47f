// Command beyond works out what a bucket for more processes than one partition takes
// would need: a tree of items, of which the root is refilled by time and each leaf
// is filled ahead from the root, for a group of processes. It simulates fleets in virtual time,
// with the library's own decisions of what to debit ahead, and searches every
// state of small trees. docs/design/beyond.md tells what came out.
//
//	go run ./beyond          # all tables (some minutes)
//	go run ./beyond search   # one of them: sizes, loads, beside, one, search
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// tables are what there is to print, by name.
var tables = []struct {
	name  string
	print func(w io.Writer)
}{
	{"sizes", func(w io.Writer) { printTable(w, sizes()) }},
	{"loads", func(w io.Writer) { printTable(w, loads()) }},
	{"beside", func(w io.Writer) { printTable(w, beside()) }},
	{"one", printMost},
	{"search", func(w io.Writer) { printChains(w, mostStates) }},
}

func main() {
	asked := os.Args[1:]
	for _, t := range tables {
		if len(asked) == 0 || slices.Contains(asked, t.name) {
			fmt.Printf("%s\n\n", t.name)
			t.print(os.Stdout)
			fmt.Println()
		}
	}
}

// printMost prints how many processes one bucket takes.
func printMost(w io.Writer) {
	horizons := []int64{0, 250, 1000, 5000}
	fmt.Fprintln(w, "| calls a second each | no Prefetch | 250 ms | 1 s | 5 s |\n|---:|---:|---:|---:|---:|")
	for _, each := range []float64{0.3, 1, 5, 20, 100} {
		fmt.Fprintf(w, "| %g |", each)
		for _, h := range horizons {
			fmt.Fprintf(w, " %d |", most(each, h))
		}
		fmt.Fprintln(w)
	}
}
