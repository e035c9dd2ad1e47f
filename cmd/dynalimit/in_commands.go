package main

import (
	"regexp"
	"strings"
)

// commandOf are the commands that do what methods do that errors of the library name.
var commandOf = map[string]string{
	"CreateTable":         "table create",
	"Migrate":             "migrate",
	"Namespaces.Register": "namespace register",
	"Namespaces.Recover":  "namespace recover",
	"Namespaces.Delete":   "namespace delete",
	"Namespaces.Purge":    "namespace purge",
	"Entities.Create":     "entity create",
	"Entities.Update":     "entity update",
	"Entities.Delete":     "entity delete",
	"Entities.Get":        "entity show",
	"Limits.SetConfig":    "limits set",
	"Limits.Set":          "limits set",
	"Limits.Delete":       "limits delete",
	"Limits.SetBlocked":   "block set",
	"PutOrg":              "budget orgs put",
	"PutApp":              "budget apps put",
	"DeleteOrg":           "budget orgs delete",
	"DeleteApp":           "budget apps delete",
}

// method is a method as errors name one: "register it with admin.Namespaces.Register",
// "finish that with Entities.Delete".
var method = regexp.MustCompile(`\b(with |call |by |or )?(Repository\.|admin\.|Admin\.)?((?:Limits|Entities|Buckets|Namespaces)\.[A-Z]\w*|[A-Z][a-z]+[A-Z]?\w*)`)

// ofSDK is what the SDK puts before what happened.
var ofSDK = regexp.MustCompile(`operation error [\w ]+: \w+, (https response error StatusCode: \d+, RequestID: [^,]*, )?(api error )?`)

// inGoAlone is advice that says nothing to users of the command line.
var inGoAlone = strings.NewReplacer(
	".PerModel: is not said: ", ": ", "(LimitConfig.Groups of each model), or say PerModel", "('dynalimit resource set MODEL --group GROUP' for each), or write per-model behind it, such as 'usd=$5/daily,per-model'",
	"use Buckets.TopUp", "use 'dynalimit bucket top-up'", "admin.Limits.Set for the system", "'dynalimit system set'", "admin.Limits.Set for the resource", "'dynalimit resource set'",
	"admin.Limits.Set for the plan", "'dynalimit plan set'", "admin.Limits.Set for the entity", "'dynalimit limits set'",
	"; read it again with GetConfig, and decide anew", "", "set ParentID too, or leave Cascade out", "give --parent too, or --no-cascade",
	"credentials cannot be had; check the provider, role or profile that the client was made with", "there are no credentials of AWS, or they cannot be had",
	"the client's role may", "your role may", "the client's credentials", "your credentials", "renew them, or give the client a provider that does", "renew them",
	"the client has no credentials; give it a provider", "there are no credentials of AWS", "the client's secret key", "your secret key",
	"check them, and the client's region and endpoint", "check them, --region and --endpoint", "check its name, and the client's region and endpoint, or create it", "check --table, --region and --endpoint",
	"the client's region and endpoint", "--region and --endpoint", "the client's endpoint", "--endpoint", "Region in the client's options", "give --region",
	"give the document that NewKeySet makes", "make one with 'dynalimit budget keyset create'",
	"name a file in Options.Spool", "name a file with --spool",
	", or make this one from Repository.TableInput", "",
	", or say with options.Retention how long hours are", "",
	"aggregator: invalid query.From: ", "--from: ", "aggregator: invalid query.Resource: ", "--resource: ",
	"aggregator: invalid id: ", "--entity: ", "aggregator: invalid plan: ", "--plan: ", "aggregator: invalid parent: ", "--children-of: ", "aggregator: invalid resource: ", "--resource: ",
)

// field is a field of the library as errors name one, and fieldOf what is typed for it.
var (
	field   = regexp.MustCompile(`(?:dynalimit: )?invalid (entity|config)\.(?:[lL]imits\[\d+\]\.)?(\w+): `)
	fieldOf = map[string]string{
		"entity.ID": "id of an entity", "entity.ParentID": "--parent", "entity.Cascade": "--cascade", "entity.Plan": "--plan", "entity.Name": "--name", "entity.Metadata": "--metadata",
		"config.Name": "name of a limit", "config.Capacity": "capacity of a limit", "config.Burst": "burst of a limit", "config.RefillAmount": "refill of a limit", "config.RefillPeriod": "period of a limit", "config.Window": "window of a quota", "config.groups": "groups (--group)",
	}
)

// inFlags says in flags and arguments what an error says in fields of the library.
func inFlags(text string) string {
	return field.ReplaceAllStringFunc(text, func(found string) string {
		part := field.FindStringSubmatch(found)
		if what := fieldOf[part[1]+"."+part[2]]; what != "" {
			return "invalid " + what + ": "
		}
		return found
	})
}

// inCommands says in commands what an error says in methods of the library.
func inCommands(text string) string {
	return method.ReplaceAllStringFunc(inFlags(inGoAlone.Replace(ofSDK.ReplaceAllString(text, ""))), func(found string) string {
		part := method.FindStringSubmatch(found)
		command := commandOf[part[3]]
		if command == "" || part[1]+part[2] == "" {
			return found
		}
		return part[1] + "'dynalimit " + command + "'"
	})
}
