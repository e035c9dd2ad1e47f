package main

// usageCmd shows usage.
type usageCmd struct {
	List   usageListCmd   `cmd:"" set:"usual=7d; 24h by hour, 366d by month" help:"Show usage, hour by hour, by day or by month."`
	Top    usageTopCmd    `cmd:"" set:"usual=24h" help:"Show the largest consumers of a resource."`
	Export usageExportCmd `cmd:"" set:"usual=7d; 24h by hour, 366d by month" help:"Write usage as CSV, or as lines of JSON."`
	Keep   usageKeepCmd   `cmd:"" help:"Show how long usage is kept, or change it."`
	Report usageReportCmd `cmd:"" hidden:"" passthrough:"" help:"Removed: see the console and usage export."`
}
