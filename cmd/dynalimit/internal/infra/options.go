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

// parts are what is made unless it is said that it is not.
var parts = []string{"tables", "roles", "alarms"}

// Options say what of the templates is made.
type Options struct {
	// Table is the limiter's table. Defaults to "limits".
	Table string
	// Budget includes the tables of budgets. Defaults to none.
	Budget *BudgetTables
	// Namespace binds the roles to one namespace of the table. Defaults to none: then the
	// roles are for what lies in no namespace, and the administrator's for the whole table.
	Namespace string
	// Parts are what is made of tables, roles and alarms. Defaults to what the template says,
	// which is all of them. Roles and alarms alone are for tables that are there already.
	Parts []string
	// Aggregator adds the function of AWS Lambda that adds up usage, and Archive the one that
	// keeps what expires in a bucket of S3. Default to none.
	Aggregator, Archive bool
	// Tail adds the role of `dynalimit tail`, and Keeper that of `dynalimit keeper serve`, on
	// the tables of Budget. Default to none.
	Tail, Keeper bool
}

// BudgetTables name the tables of budgets.
type BudgetTables struct{ Control, Usage string }

// OptionError says which option is wrong, and what to do.
type OptionError struct{ Option, Reason string }

func (e *OptionError) Error() string { return fmt.Sprintf("%s %s", e.Option, e.Reason) }

// Values are the values of the parameters that the options name; the others keep their
// defaults. It fails with an error that names the option that is wrong.
func (o Options) Values() (map[string]string, error) {
	if err := o.check(); err != nil {
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

func (o Options) check() error {
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

// checkTables fails if a table or the namespace has a name that it cannot have.
func (o Options) checkTables() error {
	if strings.HasPrefix(o.Table, "arn:") {
		return &OptionError{"table", fmt.Sprintf("is an ARN, %q; give the table's name", o.Table)}
	}
	if o.Table == "" {
		o.Table = "limits"
	}
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"}) // asked nothing
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
