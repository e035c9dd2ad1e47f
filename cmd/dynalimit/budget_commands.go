package main

// budgetCommands is the commands about budgets.
type budgetCommands struct {
	budgetCmd

	Settings settingsCmd `cmd:"" help:"Show and change what all keepers of the tables share."`
	Orgs     orgsCmd     `cmd:"" help:"List, show, configure and delete organisations."`
	Apps     appsCmd     `cmd:"" help:"List, show, configure and delete the apps of an organisation."`
	Quotas   quotasCmd   `cmd:"" help:"Show or set what labels may cost."`
	Today    todayCmd    `cmd:"" help:"Show what each label has cost today, as bars."`
	History  historyCmd  `cmd:"" help:"Show what the last days cost, as a chart."`
	Override overrideCmd `cmd:"" help:"Force an app's label for some time, or end that."`
	Adjust   adjustCmd   `cmd:"" help:"Charge or credit a label's day by hand."`
	Sweep    sweepCmd    `cmd:"" help:"Close days that are over and deliver events that nobody had."`

	Recommend recommendCmd `cmd:"" help:"Show which label an app may use now, and why."`
	Prices    pricesCmd    `cmd:"" help:"List or store prices of models."`

	Credentials credentialsCmd `cmd:"" help:"Give organisations and apps secrets to log in with, and end them."`
	Keys        keysCmd        `cmd:"" help:"Make, list and end the keys of those who configure over the REST API."`

	Keyset keysetCmd `cmd:"" help:"Make and renew the file of keys under which secrets are hashed and tokens signed."`
}
