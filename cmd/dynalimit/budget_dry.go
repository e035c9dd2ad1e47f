package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// wouldWrite is a write that a dry run does not make.
type wouldWrite struct {
	operation string
	table     *string
	key       map[string]types.AttributeValue
	// set are the attributes that it sets, add the numbers that it adds, remove those that
	// go; whole says that all others go too.
	set, add map[string]types.AttributeValue
	remove   []string
	whole    bool
}

// dryRunEnd is what a command's first write fails with in a dry run: everything before it,
// all checks among it, was done.
type dryRunEnd struct{ writes []wouldWrite }

func (*dryRunEnd) Error() string { return "dry run: nothing was changed" }

// ErrorCode makes it an answer that is not tried again.
func (*dryRunEnd) ErrorCode() string             { return "ValidationException" }
func (e *dryRunEnd) ErrorMessage() string        { return e.Error() }
func (*dryRunEnd) ErrorFault() smithy.ErrorFault { return smithy.FaultClient }

// withoutWrites lets a client send no write.
func withoutWrites(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("DryRun", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			if writes := writesOf(in.Parameters); len(writes) > 0 {
				return middleware.InitializeOutput{}, middleware.Metadata{}, &dryRunEnd{writes}
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
	})
}

// writesOf are the writes of a request, without the events that go with them.
func writesOf(input any) []wouldWrite {
	switch in := input.(type) {
	case *dynamodb.PutItemInput:
		return []wouldWrite{putOf(in.TableName, in.Item)}
	case *dynamodb.UpdateItemInput:
		return []wouldWrite{updateOf(in.TableName, in.Key, in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues)}
	case *dynamodb.DeleteItemInput:
		return []wouldWrite{{operation: "delete", table: in.TableName, key: in.Key, whole: true}}
	case *dynamodb.CreateTableInput:
		return []wouldWrite{{operation: "create the table", table: in.TableName}}
	case *dynamodb.TransactWriteItemsInput:
		var all []wouldWrite
		for _, part := range in.TransactItems {
			all = append(all, partOf(part)...)
		}
		return slices.DeleteFunc(all, func(w wouldWrite) bool { return strings.HasPrefix(attributeText(w.key["PK"]), "AUDIT#") })
	}
	return nil
}

func partOf(part types.TransactWriteItem) []wouldWrite {
	switch {
	case part.Put != nil:
		return []wouldWrite{putOf(part.Put.TableName, part.Put.Item)}
	case part.Update != nil:
		u := part.Update
		return []wouldWrite{updateOf(u.TableName, u.Key, u.UpdateExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues)}
	case part.Delete != nil:
		return []wouldWrite{{operation: "delete", table: part.Delete.TableName, key: part.Delete.Key, whole: true}}
	}
	return nil // a check
}

func putOf(table *string, item map[string]types.AttributeValue) wouldWrite {
	w := wouldWrite{operation: "put", table: table, key: map[string]types.AttributeValue{}, set: maps.Clone(item), whole: true}
	for _, name := range []string{"PK", "SK"} {
		if v, ok := item[name]; ok {
			w.key[name] = v
			delete(w.set, name)
		}
	}
	return w
}

// clauses are those of an update, in any order.
var clauses = regexp.MustCompile(`(SET|ADD|REMOVE|DELETE) `)

// updateOf reads an update. A value that is no plain one is left out.
func updateOf(table *string, key map[string]types.AttributeValue, expression *string, names map[string]string, values map[string]types.AttributeValue) wouldWrite {
	w := wouldWrite{operation: "update", table: table, key: key, set: map[string]types.AttributeValue{}, add: map[string]types.AttributeValue{}}
	text := aws.ToString(expression)
	at := clauses.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		for _, part := range strings.Split(text[m[1]:end], ",") {
			w.clause(text[m[2]:m[3]], strings.Fields(part), names, values)
		}
	}
	return w
}

func (w *wouldWrite) clause(verb string, words []string, names map[string]string, values map[string]types.AttributeValue) {
	name := func() string { return cmp.Or(names[words[0]], words[0]) }
	switch {
	case verb == "SET" && len(words) == 3 && values[words[2]] != nil:
		w.set[name()] = values[words[2]]
	case verb == "ADD" && len(words) == 2 && values[words[1]] != nil:
		w.add[name()] = values[words[1]]
	case verb == "REMOVE" && len(words) == 1:
		w.remove = append(w.remove, name())
	}
}

// bookkeeping are attributes that say nothing to a person.
var bookkeeping = []string{"PK", "SK", "put_id", "updated_at_epoch", "created_at_epoch", "ttl_epoch", "cfg_version", "apps_version", "n", "since_epoch_ms"}

// against are the differences from what is stored.
func (w *wouldWrite) against(stored map[string]types.AttributeValue) []attributeChange {
	var all []attributeChange
	add := func(name, before, after string) {
		if before != after && !slices.Contains(bookkeeping, name) {
			all = append(all, attributeChange{name, before, after})
		}
	}
	for name, v := range w.set {
		add(name, attributeText(stored[name]), attributeText(v))
	}
	for name, v := range w.add {
		add(name, attributeText(stored[name]), sumText(stored[name], v))
	}
	for name, v := range stored {
		if _, set := w.set[name]; slices.Contains(w.remove, name) || w.whole && !set {
			add(name, attributeText(v), "")
		}
	}
	slices.SortFunc(all, func(a, b attributeChange) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// sumText is what adding to an attribute leaves: a set with what is new, a number plus
// another.
func sumText(old, more types.AttributeValue) string {
	set, isSet := more.(*types.AttributeValueMemberSS)
	if !isSet {
		return strings.TrimSpace(attributeText(old) + " + " + attributeText(more))
	}
	all := slices.Clone(set.Value)
	if before, ok := old.(*types.AttributeValueMemberSS); ok {
		all = append(all, before.Value...)
	}
	slices.Sort(all)
	return attributeText(&types.AttributeValueMemberSS{Value: slices.Compact(all)})
}

// keyText names an item; over which shard a counter is spread is nobody's business.
func keyText(item map[string]types.AttributeValue) string {
	text := attributeText(item["PK"])
	if sk := attributeText(item["SK"]); sk != "" && sk != "#" {
		text += " " + sk
	}
	text, _, _ = strings.Cut(text, "#SH#")
	return text
}

func attributeText(v types.AttributeValue) string {
	switch v := v.(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value)
	case *types.AttributeValueMemberSS:
		return strings.Join(slices.Sorted(slices.Values(v.Value)), " ")
	case *types.AttributeValueMemberM:
		parts := make([]string, 0, len(v.Value))
		for _, name := range slices.Sorted(maps.Keys(v.Value)) {
			parts = append(parts, name+": "+attributeText(v.Value[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *types.AttributeValueMemberL:
		parts := make([]string, len(v.Value))
		for i, value := range v.Value {
			parts[i] = attributeText(value)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "…"
}

// attributeChange is what a dry run would change of an item, for people and programs.
type attributeChange struct {
	Name   string `json:"name"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// itemChange is an item that a dry run would change.
type itemChange struct {
	Operation string            `json:"operation"`
	Table     string            `json:"table"`
	Item      string            `json:"item,omitempty"`
	Changes   []attributeChange `json:"changes"`
}

// show shows what a dry run came to, against what is stored.
func (e *dryRunEnd) show(ctx context.Context, client *dynamodb.Client, out *term.Output) error {
	items := make([]itemChange, len(e.writes))
	for i, w := range e.writes {
		items[i] = itemChange{w.operation, aws.ToString(w.table), keyText(w.key), []attributeChange{}}
		if w.key == nil {
			continue
		}
		stored, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: w.table, Key: w.key, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return err
		}
		items[i].Changes = append(items[i].Changes, w.against(stored.Item)...)
	}
	return out.Show(struct {
		DryRun bool         `json:"dry_run"`
		Items  []itemChange `json:"items"`
	}{true, items}, func() {
		for _, item := range items {
			fmt.Fprintf(out, "%s %s %s\n", item.Operation, item.Table, out.Bold(term.Plain(item.Item)))
			for _, c := range item.Changes {
				fmt.Fprintln(out, "  "+c.line(out))
			}
		}
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	})
}

func (c attributeChange) line(out *term.Output) string {
	before, after := term.Plain(c.Before), term.Plain(c.After)
	switch {
	case before == "":
		return out.Green("+ " + c.Name + "  " + after)
	case after == "":
		return out.Red("- " + c.Name + "  " + before)
	}
	return out.Yellow("~ " + c.Name + "  " + before + " → " + after)
}
