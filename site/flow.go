package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// flow is a diagram as the documents write it: the part of Mermaid's flowcharts that they
// use. GitHub draws the same text.
type flow struct {
	down   bool // from the top down; else from the left
	nodes  []*flowNode
	edges  []flowEdge
	groups []string // titles
}

type flowNode struct {
	name  string
	lines []string // of its text
	round bool
	group int // of flow.groups, or -1
	rank  int
	flowBox
}

type flowEdge struct {
	from, to *flowNode
	text     string
	dotted   bool
	back     bool // it would close a circle
}

var (
	flowHead  = regexp.MustCompile(`^flowchart (LR|TD)$`)
	flowGroup = regexp.MustCompile(`^subgraph \w+\[(.+)\]$`)
	// flowArrow is an arrow, with a text or without: -->, -- text -->, -. text .->.
	flowArrow = regexp.MustCompile(`^\s*(?:-->|--\s+(.+?)\s*-->|(-\.)\s*(.+?)\s*\.->)\s*`)
	// flowNodeText is a name with a shape around its text: [a box], ([a round one]), [(a table)].
	flowNodeText = regexp.MustCompile(`^(\w+)(?:\(\[(.+?)\]\)|\[\((.+?)\)\]|\[(.+?)\])?`)
	flowAnd      = regexp.MustCompile(`^\s*&\s*`)
)

// parseFlow refuses what it does not know, so that no diagram is drawn in part.
func parseFlow(code string) (*flow, error) {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	head := flowHead.FindStringSubmatch(strings.TrimSpace(lines[0]))
	if head == nil {
		return nil, fmt.Errorf("%q begins no flowchart from left to right or top down", lines[0])
	}
	f, group := &flow{down: head[1] == "TD"}, -1
	for _, line := range lines[1:] {
		line = strings.TrimSpace(line)
		if m := flowGroup.FindStringSubmatch(line); m != nil {
			f.groups = append(f.groups, strings.Trim(m[1], `"`))
			group = len(f.groups) - 1
			continue
		}
		if line == "end" {
			group = -1
			continue
		}
		if err := f.statement(line, group); err != nil {
			return nil, err
		}
	}
	f.rankNodes()
	return f, nil
}

// statement reads nodes & nodes --> nodes & nodes, of any length.
func (f *flow) statement(line string, group int) error {
	from, rest, err := f.readNodes(line, group)
	for err == nil && rest != "" {
		arrow := flowArrow.FindStringSubmatch(rest)
		if arrow == nil {
			return fmt.Errorf("%q has no arrow where one should be", rest)
		}
		var to []*flowNode
		to, rest, err = f.readNodes(rest[len(arrow[0]):], group)
		for _, a := range from {
			for _, b := range to {
				f.edges = append(f.edges, flowEdge{from: a, to: b, text: strings.Trim(arrow[1]+arrow[3], `"`), dotted: arrow[2] != ""})
			}
		}
		from = to
	}
	return err
}

func (f *flow) readNodes(text string, group int) (nodes []*flowNode, rest string, err error) {
	for {
		m := flowNodeText.FindStringSubmatch(text)
		if m == nil {
			return nil, "", fmt.Errorf("%q has no node where one should be", text)
		}
		nodes = append(nodes, f.node(m, group))
		text = text[len(m[0]):]
		and := flowAnd.FindString(text)
		if and == "" {
			return nodes, strings.TrimSpace(text), nil
		}
		text = text[len(and):]
	}
}

// node is the node of a name, with the text where it is first given one.
func (f *flow) node(m []string, group int) *flowNode {
	i := slices.IndexFunc(f.nodes, func(n *flowNode) bool { return n.name == m[1] })
	if i < 0 {
		f.nodes = append(f.nodes, &flowNode{name: m[1], lines: []string{m[1]}, group: group})
		i = len(f.nodes) - 1
	}
	if text := strings.Trim(m[2]+m[3]+m[4], `"`); text != "" {
		f.nodes[i].lines = strings.Split(text, "<br/>")
		f.nodes[i].round = m[2]+m[3] != ""
	}
	return f.nodes[i]
}

// rankNodes puts every node behind those that lead to it. An edge that would close a
// circle leads back.
func (f *flow) rankNodes() {
	for i := range f.edges {
		e := &f.edges[i]
		e.back = f.leads(e.to, e.from, i)
	}
	for range f.nodes {
		for _, e := range f.edges {
			if !e.back {
				e.to.rank = max(e.to.rank, e.from.rank+1)
			}
		}
	}
}

// leads reports whether the first n edges lead from a to b.
func (f *flow) leads(a, b *flowNode, n int) bool {
	if a == b {
		return true
	}
	for _, e := range f.edges[:n] {
		if !e.back && e.from == a && f.leads(e.to, b, n) {
			return true
		}
	}
	return false
}
