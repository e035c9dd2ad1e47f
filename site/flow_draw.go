package main

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"
)

// flowBox is where something is drawn: its middle and its size, in pixels.
type flowBox struct{ x, y, wide, high float64 }

const (
	flowChar   = 7.1 // as wide as a letter is taken for
	flowLine   = 18.0
	flowMargin = 16.0
)

func widthOf(lines ...string) float64 {
	most := 0
	for _, line := range lines {
		most = max(most, utf8.RuneCountInString(line))
	}
	return float64(most) * flowChar
}

// drawFlow is the diagram as SVG, in the colours of the page.
func drawFlow(code string) (string, error) {
	f, err := parseFlow(code)
	if err != nil {
		return "", err
	}
	f.place()
	var b strings.Builder
	for i, title := range f.groups {
		f.drawGroup(&b, i, title)
	}
	for _, e := range f.edges {
		f.drawEdge(&b, e)
	}
	for _, n := range f.nodes {
		n.draw(&b)
	}
	for _, e := range f.edges {
		f.drawText(&b, e)
	}
	frame := f.frame()
	return fmt.Sprintf("<figure class=\"diagram\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" style=\"min-width:min(%.0fpx,46rem)\" viewBox=\"%.0f %.0f %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n%s</svg></figure>\n",
		frame.wide, frame.high, frame.wide, frame.x, frame.y, frame.wide, frame.high, html.EscapeString(f.told()), b.String()), nil
}

// told is the diagram in words.
func (f *flow) told() string {
	var parts []string
	for _, e := range f.edges {
		parts = append(parts, strings.Join(e.from.lines, " ")+" to "+strings.Join(e.to.lines, " "))
	}
	return "Diagram: " + strings.Join(parts, "; ")
}

// place gives every node its size and its middle: its rank decides along the flow, those
// that lead to it decide across.
func (f *flow) place() {
	last := 0
	for _, n := range f.nodes {
		n.wide, n.high = widthOf(n.lines...)+26, float64(len(n.lines))*flowLine+14
		last = max(last, n.rank)
	}
	begin := 0.0
	for rank := 0; rank <= last; rank++ {
		var row []*flowNode
		deep := 0.0
		for _, n := range f.nodes {
			if n.rank == rank {
				row = append(row, n)
				deep = max(deep, f.along(n))
			}
		}
		f.spread(row)
		for _, n := range row {
			f.setAlong(n, begin+deep/2)
		}
		begin += deep + f.gapAfter(rank)
	}
}

func (f *flow) along(n *flowNode) float64 {
	if f.down {
		return n.high
	}
	return n.wide
}

func (f *flow) setAlong(n *flowNode, at float64) {
	if f.down {
		n.y = at
	} else {
		n.x = at
	}
}

// across is how much room a node takes beside others of its rank: from the top down,
// what is written at the edges to it needs room too.
func (f *flow) across(n *flowNode) float64 {
	if !f.down {
		return n.high
	}
	room := n.wide
	for _, e := range f.edges {
		if e.to == n {
			room = max(room, widthOf(e.text)+12)
		}
	}
	return room
}

// gapAfter is the room between a rank and the next.
func (f *flow) gapAfter(rank int) float64 {
	if f.down {
		return 64
	}
	gap := 44.0
	for _, e := range f.edges {
		if e.text != "" && min(e.from.rank, e.to.rank) == rank {
			gap = max(gap, widthOf(e.text)+36)
		}
	}
	return gap
}

// spread puts the nodes of a rank beside each other, each as near as may be to the
// middle of those that lead to it.
func (f *flow) spread(row []*flowNode) {
	wanted := map[*flowNode]float64{}
	for _, n := range row {
		wanted[n] = f.wanted(n)
	}
	slices.SortStableFunc(row, func(a, b *flowNode) int { return cmp.Compare(wanted[a], wanted[b]) })
	end, shift := 0.0, 0.0
	at := make([]float64, len(row))
	for i, n := range row {
		at[i] = end + f.across(n)/2
		switch {
		case i == 0:
		case row[i-1].group == n.group:
			at[i] += 18
		default: // a group has a frame and a title, and its ranks begin together
			at[i] = max(at[i]+58, wanted[n]-wanted[row[0]]+at[0])
		}
		end = at[i] + f.across(n)/2
		shift += wanted[n] - at[i]
	}
	for i, n := range row {
		f.setAcross(n, at[i]+shift/float64(len(row)))
	}
}

// wanted is the middle of the nodes that lead to one.
func (f *flow) wanted(n *flowNode) float64 {
	sum, count := 0.0, 0
	for _, e := range f.edges {
		if e.to == n && !e.back {
			sum, count = sum+f.acrossAt(e.from), count+1
		}
	}
	return sum / float64(max(count, 1))
}

func (f *flow) acrossAt(n *flowNode) float64 {
	if f.down {
		return n.x
	}
	return n.y
}

func (f *flow) setAcross(n *flowNode, at float64) {
	if f.down {
		n.x = at
	} else {
		n.y = at
	}
}

// enclose grows a box, whose x and y are its corner here, to hold another.
func enclose(a, b flowBox) flowBox {
	if a == (flowBox{}) {
		return b
	}
	right, bottom := max(a.x+a.wide, b.x+b.wide), max(a.y+a.high, b.y+b.high)
	a.x, a.y = min(a.x, b.x), min(a.y, b.y)
	a.wide, a.high = right-a.x, bottom-a.y
	return a
}

func (n *flowNode) outline(margin float64) flowBox {
	return flowBox{n.x - n.wide/2 - margin, n.y - n.high/2 - margin, n.wide + 2*margin, n.high + 2*margin}
}

// groupBox is a group with its title above.
func (f *flow) groupBox(group int) flowBox {
	var box flowBox
	for _, n := range f.nodes {
		if n.group == group {
			box = enclose(box, n.outline(12))
		}
	}
	box.y, box.high = box.y-flowLine, box.high+flowLine
	return box
}

// frame holds everything.
func (f *flow) frame() flowBox {
	var box flowBox
	for _, n := range f.nodes {
		box = enclose(box, n.outline(flowMargin))
	}
	for i := range f.groups {
		box = enclose(box, f.groupBox(i))
	}
	for _, e := range f.edges {
		x, y := f.middle(e)
		half := widthOf(e.text)/2 + 6
		box = enclose(box, flowBox{x - half, y - flowLine, 2 * half, 2 * flowLine})
	}
	return flowBox{box.x - 2, box.y - 2, box.wide + 4, box.high + 4}
}

func (f *flow) drawGroup(b *strings.Builder, group int, title string) {
	box := f.groupBox(group)
	fmt.Fprintf(b, "<rect class=\"group\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\"/>\n", box.x, box.y, box.wide, box.high)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", box.x+10, box.y+flowLine, html.EscapeString(title))
}

func (n *flowNode) draw(b *strings.Builder) {
	radius := 5.0
	if n.round {
		radius = min(n.high/2, 18)
	}
	fmt.Fprintf(b, "<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\"/>\n", n.x-n.wide/2, n.y-n.high/2, n.wide, n.high, radius)
	top := n.y - float64(len(n.lines)-1)*flowLine/2 + 4.5
	for i, line := range n.lines {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", n.x, top+float64(i)*flowLine, html.EscapeString(line))
	}
}

// ends are where an edge begins and ends, and which way it leaves and arrives.
func (f *flow) ends(e flowEdge) (x1, y1, x2, y2, dx, dy float64) {
	switch {
	case e.back:
		return e.from.x, e.from.y + e.from.high/2, e.to.x, e.to.y + e.to.high/2, 0, 1
	case f.down:
		return e.from.x, e.from.y + e.from.high/2, e.to.x, e.to.y - e.to.high/2, 0, 1
	}
	return e.from.x + e.from.wide/2, e.from.y, e.to.x - e.to.wide/2, e.to.y, 1, 0
}

func (f *flow) drawEdge(b *strings.Builder, e flowEdge) {
	x1, y1, x2, y2, dx, dy := f.ends(e)
	bend, into := 0.5*((x2-x1)*dx+(y2-y1)*dy), -1.0
	if e.back { // below what it passes, and up into the other end
		bend, into = 48, 1
	}
	dash := ""
	if e.dotted {
		dash = " stroke-dasharray=\"4 4\""
	}
	fmt.Fprintf(b, "<path class=\"edge\"%s d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", dash,
		x1, y1, x1+dx*bend, y1+dy*bend, x2+into*dx*bend, y2+into*dy*bend, x2, y2)
	dx, dy = into*dx, into*dy
	fmt.Fprintf(b, "<path class=\"head\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\"/>\n",
		x2, y2, x2+8*dx-4*dy, y2+8*dy+4*dx, x2+8*dx+4*dy, y2+8*dy-4*dx)
}

// middle is where the text of an edge is.
func (f *flow) middle(e flowEdge) (x, y float64) {
	x1, y1, x2, y2, _, _ := f.ends(e)
	if e.back {
		return (x1 + x2) / 2, max(y1, y2) + 36
	}
	if f.down { // at its end, where it has room of its own
		return x2, y1 + (y2-y1)*0.62
	}
	return (x1 + x2) / 2, (y1 + y2) / 2
}

func (f *flow) drawText(b *strings.Builder, e flowEdge) {
	if e.text == "" {
		return
	}
	x, y := f.middle(e)
	wide := widthOf(e.text) + 8
	fmt.Fprintf(b, "<rect class=\"under\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", x-wide/2, y-9, wide, flowLine)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, y+4.5, html.EscapeString(e.text))
}
