package infra

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// parts are the default parts of a deployment.
var parts = []string{"tables", "roles", "alarms"}

// Options selects the parts of the templates.
type Options struct {
	// Table is the limiter's table. Defaults to "limits".
	Table string
	// Budget includes the tables of budgets. Defaults to none.
	Budget *BudgetTables
	// Namespace restricts the roles to one namespace of the table. Defaults to none: then the
	// roles apply to items without a namespace, and the administrator's role to the whole
	// table.
	Namespace string
	// Parts selects tables, roles and alarms. Defaults to the template's default, which is all.
	// Roles and alarms without tables are for existing tables.
	Parts []string
	// Aggregator adds the AWS Lambda function that adds up usage, and Archive the one that
	// archives expired items in an S3 bucket. Both default to false.
	Aggregator, Archive bool
	// Tail adds the role of `dynalimit tail`, and Keeper that of `dynalimit keeper serve`, on
	// the tables of Budget. Both default to false.
	Tail, Keeper bool
}

// BudgetTables are the names of the tables of budgets.
type BudgetTables struct{ Control, Usage string }

// OptionError is an invalid option, with the fix.
type OptionError struct{ Option, Reason string }

// Error names the option and the reason.
func (e *OptionError) Error() string { return fmt.Sprintf("%s %s", e.Option, e.Reason) }

// Values returns the values of the template's parameters that the options set, by name; the others keep their
// defaults. An invalid option is an error that names it, usually an *OptionError.
func (o Options) Values() (map[string]string, error) {
	if err := o.checkOptions(); err != nil {
		return nil, err
	}
	values := map[string]string{}
	set := func(name, value, standard string) {
		if value != "" && value != standard {
			values[name] = value
		}
	}
	set("LimitsTableName", o.Table, "limits")
	if o.Namespace != "" {
		values["NamespacePrefix"] = o.Namespace + "/"
	}
	if o.Budget != nil {
		values["Budgets"] = "true"
		set("BudgetControlTableName", o.Budget.Control, "control")
		set("BudgetUsageTableName", o.Budget.Usage, "usage")
	}
	for i, name := range []string{"Tables", "Roles", "Alarms"} {
		if len(o.Parts) > 0 {
			values[name] = strconv.FormatBool(slices.Contains(o.Parts, parts[i]))
		}
	}
	for name, made := range map[string]bool{"Aggregator": o.Aggregator, "Archive": o.Archive, "Tail": o.Tail, "Keeper": o.Keeper} {
		if made {
			values[name] = "true"
		}
	}
	return values, nil
}

// checkOptions returns an *OptionError for an unknown part and for options that contradict each other, and the
// error of checkTables.
func (o Options) checkOptions() error {
	for _, p := range o.Parts {
		if !slices.Contains(parts, p) {
			return &OptionError{"parts", fmt.Sprintf("has %q; the parts are tables, roles and alarms", p)}
		}
	}
	for name, made := range map[string]bool{"aggregator": o.Aggregator, "archive": o.Archive, "tail": o.Tail} {
		if made && o.Namespace != "" {
			return &OptionError{name, "is of the whole table, with all its namespaces; deploy it without --namespace"}
		}
	}
	if o.Keeper && o.Budget == nil {
		return &OptionError{"keeper", "is about the tables of budgets; add --budget, with --control and --usage where they have other names"}
	}
	return o.checkTables()
}

// checkTables returns an error for invalid names of tables and of the namespace, and for tables of budgets with
// the name of the limits' table. It sends no request.
func (o Options) checkTables() error {
	if strings.HasPrefix(o.Table, "arn:") {
		return &OptionError{"table", fmt.Sprintf("is an ARN, %q; give the table's name", o.Table)}
	}
	if o.Table == "" {
		o.Table = "limits"
	}
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"}) // sends no request
	if _, err := dynalimit.NewRepository(client, o.Table, &dynalimit.RepositoryOptions{Namespace: o.Namespace}); err != nil {
		return err
	}
	if o.Budget == nil {
		return nil
	}
	if _, err := (budget.Tables{Control: o.Budget.Control, Usage: o.Budget.Usage}).TableInputs(); err != nil {
		return err
	}
	if o.Budget.Control == o.Table || o.Budget.Usage == o.Table {
		return &OptionError{"control and --usage", fmt.Sprintf("name the limiter's table, %q; name others", o.Table)}
	}
	return nil
}
