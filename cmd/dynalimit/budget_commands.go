package main

// budgetCommands is the commands about budgets.
type budgetCommands struct {
	budgetCmd

	Settings settingsCmd `cmd:"" help:"Show and change the settings that all keepers of the tables share."`
	Orgs     orgsCmd     `cmd:"" help:"List, show, configure and delete organisations."`
	Apps     appsCmd     `cmd:"" help:"List, show, configure and delete the apps of an organisation."`
	Quotas   quotasCmd   `cmd:"" help:"Show or set the quotas of labels."`
	Today    todayCmd    `cmd:"" help:"Show the cost of each label today, as bars."`
	History  historyCmd  `cmd:"" help:"Show the cost of the last days, as a chart."`
	Override overrideCmd `cmd:"" help:"Force an app's label for some time, or end that."`
	Adjust   adjustCmd   `cmd:"" help:"Charge or credit a label's day by hand."`
	Sweep    sweepCmd    `cmd:"" help:"Close past days and deliver pending events."`

	Recommend recommendCmd `cmd:"" help:"Show which label an app may use now, and why."`
	Prices    pricesCmd    `cmd:"" help:"List or store prices of models."`

	Credentials credentialsCmd `cmd:"" help:"Give organisations and apps secrets to log in with, and end them."`
	Keys        keysCmd        `cmd:"" help:"Create, list and revoke the provisioning keys of the REST API."`

	Keyset keysetCmd `cmd:"" help:"Make and renew the file of keys under which secrets are hashed and tokens signed."`
}
