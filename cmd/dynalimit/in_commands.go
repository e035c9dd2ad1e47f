package main

import (
	"regexp"
	"strings"
)

// commandOf are the commands that do what methods do that errors of the library name.
var commandOf = map[string]string{
	"CreateTable":        "table create",
	"Migrate":            "migrate",
	"RegisterNamespace":  "namespace register",
	"RecoverNamespace":   "namespace recover",
	"DeleteNamespace":    "namespace delete",
	"PurgeNamespace":     "namespace purge",
	"CreateEntity":       "entity create",
	"UpdateEntity":       "entity update",
	"DeleteEntity":       "entity delete",
	"GetEntity":          "entity show",
	"SetConfig":          "limits set",
	"SetEntityLimits":    "limits set",
	"SetPlanLimits":      "plan set",
	"SetResourceLimits":  "resource set",
	"SetSystemLimits":    "system set",
	"DeleteEntityLimits": "limits delete",
	"SetBlocked":         "block set",
	"PutOrg":             "budget orgs put",
	"PutApp":             "budget apps put",
	"DeleteOrg":          "budget orgs delete",
	"DeleteApp":          "budget apps delete",
}

// method is a method as errors name one: "register it with Repository.RegisterNamespace",
// "finish that with DeleteEntity".
var method = regexp.MustCompile(`\b(with |call |by |or )?(Repository\.)?([A-Z][a-z]+[A-Z]?\w*)`)

// inGoAlone is advice that says nothing to users of the command line.
var inGoAlone = strings.NewReplacer(
	"; read it again with GetConfig, and decide anew", "",
	"give the document that NewKeySet makes", "make one with 'dynalimit budget keyset create'",
	"name a file in Options.Spool", "name a file with --spool",
	", or make this one from Repository.TableInput", "",
	", or say with options.Retention how long hours are", "",
	"aggregator: invalid query.From: ", "--from: ", "aggregator: invalid query.Resource: ", "--resource: ",
	"aggregator: invalid id: ", "--entity: ", "aggregator: invalid plan: ", "--plan: ", "aggregator: invalid parent: ", "--children-of: ", "aggregator: invalid resource: ", "--resource: ",
)

// inCommands says in commands what an error says in methods of the library.
func inCommands(text string) string {
	return method.ReplaceAllStringFunc(inGoAlone.Replace(text), func(found string) string {
		part := method.FindStringSubmatch(found)
		command := commandOf[part[3]]
		if command == "" || part[1]+part[2] == "" {
			return found
		}
		return part[1] + "'dynalimit " + command + "'"
	})
}
