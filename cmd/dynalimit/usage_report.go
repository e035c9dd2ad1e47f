package main

// usageReportCmd stands in for a removed command: it says what to use instead.
type usageReportCmd struct {
	Flags []string `arg:"" optional:"" help:"Its former flags."`
}

// Run always fails, with an error that names the commands in place of the removed one.
func (usageReportCmd) Run() error {
	return badInput("usage report is gone: 'dynalimit console' shows the charts, and 'dynalimit usage export' writes the figures for every entity with --per-entity")
}
