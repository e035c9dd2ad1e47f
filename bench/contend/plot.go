package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// draw writes a chart of what was admitted and what was allowed over time.
func draw(path string, samples []sample) error {
	p := plot.New()
	p.Title.Text = "Tokens admitted and allowed"
	p.X.Label.Text = "seconds"
	p.Y.Label.Text = "tokens"
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	var admitted, allowed plotter.XYs
	for _, s := range samples {
		admitted = append(admitted, plotter.XY{X: s.at.Seconds(), Y: s.admitted})
		allowed = append(allowed, plotter.XY{X: s.at.Seconds(), Y: s.allowed})
	}
	for _, l := range []struct {
		name   string
		points plotter.XYs
		colour color.Color
	}{
		{"allowed", allowed, color.RGBA{R: 0xb0, G: 0x30, B: 0x30, A: 0xff}},
		{"admitted", admitted, color.RGBA{R: 0x20, G: 0x60, B: 0xa0, A: 0xff}},
	} {
		line, err := plotter.NewLine(l.points)
		if err != nil {
			return fmt.Errorf("draw %s: %w", l.name, err)
		}
		line.Color, line.Width = l.colour, vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	return p.Save(16*vg.Centimeter, 10*vg.Centimeter, path)
}
