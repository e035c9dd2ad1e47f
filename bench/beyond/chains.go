package main

import (
	"fmt"
	"io"
)

// mostStates ends a search.
const mostStates = 3_000_000

// bounded are the chains whose bound the search proves.
func bounded() []chain {
	return []chain{
		{2, 1, []int8{1}, anew},
		{2, 1, []int8{1, 1}, anew},
		{3, 1, []int8{2, 1}, anew},
		{3, 1, []int8{1, 2}, anew},
		{4, 2, []int8{1, 1}, anew},
		{3, 1, []int8{1, 1, 1}, anew},
		{4, 1, []int8{2, 2}, anew},
		{5, 1, []int8{2, 1, 1}, anew},
		{2, 1, []int8{1, 1}, carried},
		{3, 1, []int8{2, 2}, carried},
		{4, 2, []int8{1, 1}, carried},
		{3, 1, []int8{2, 2, 2}, carried},
		{6, 2, []int8{2, 2}, carried},
		{3, 1, []int8{2, 2}, up},
		{4, 1, []int8{2, 2, 2}, up},
	}
}

// unbounded are those whose bound it refutes.
func unbounded() []chain {
	return []chain{
		{2, 1, []int8{1, 1}, upAnew},
		{2, 1, []int8{1, 1}, toRoot},
		{3, 1, []int8{1}, leaseToLeaf},
		{3, 1, []int8{1}, leaseToRoot},
	}
}

// printChains prints what the search says of each.
func printChains(w io.Writer, states int) {
	fmt.Fprintln(w, "| burst | refill | horizons, ticks | age | bound | search |\n|---:|---:|---|---|---:|---|")
	for _, c := range append(bounded(), unbounded()...) {
		fmt.Fprintf(w, "| %d | %d | %v | %s | %d | %v |\n", c.burst, c.refill, c.horizons, c.rule, c.bound(), c.search(states))
	}
}
