package main

// usageReportCmd stands in for a removed command: it says what to use instead.
type usageReportCmd struct {
	Flags []string `arg:"" optional:"" help:"Its former flags."`
}

// Run fails with the successors of the command.
func (usageReportCmd) Run() error {
	return badInput("usage report is gone: 'dynalimit console' shows the charts, and 'dynalimit usage export' writes the figures for every entity with --per-entity")
}
