// Command catalogtable writes prices/catalog_table.txt from a price list of LiteLLM:
//
//	go run ./prices/internal/catalogtable -source "litellm 1.110.2 (PyPI), 2026-11-27" LIST.json > prices/catalog_table.txt
//
// It takes the ids that the transport's dialects can call, at the prices that prices.Load
// reads.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// providers are LiteLLM's names of the providers with a dialect.
var providers = []string{"openai", "text-completion-openai", "anthropic", "bedrock", "bedrock_converse", "gemini"}

// modes are LiteLLM's names of the kinds of calls that the dialects read.
var modes = []string{"chat", "responses", "completion", "embedding"}

// main reads LiteLLM's list from the file in the argument and writes the table to standard output. The flag
// -source is the table's first line. It exits with code 1 after an error.
func main() {
	source := flag.String("source", "", "the list's name, version and date")
	flag.Parse()
	if *source == "" || flag.NArg() != 1 {
		exitWithError(errors.New("give -source and the file of the list"))
	}
	raw, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		exitWithError(err)
	}
	if err := writeTable(os.Stdout, raw, *source); err != nil {
		exitWithError(err)
	}
}

// writeTable writes the table for the list in raw to w, with source as its first line, sorted. It leaves out
// fine-tuned, free and uncallable models. Models with the same prices share a line; it fails for an unreadable
// list.
func writeTable(w io.Writer, raw []byte, source string) error {
	list, err := prices.Load(bytes.NewReader(raw), providers...)
	if err != nil {
		return err
	}
	var rows map[string]struct {
		Provider string `json:"litellm_provider"`
		Mode     string `json:"mode"`
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		return err
	}
	reachable := map[string]bool{}
	for id, row := range rows {
		if slices.Contains(providers, row.Provider) && slices.Contains(modes, row.Mode) {
			reachable[id[strings.LastIndexByte(id, '/')+1:]] = true
		}
	}
	models := map[string][]string{}
	for _, model := range slices.Sorted(maps.Keys(list.Calls)) {
		call := list.Calls[model]
		tuned := strings.HasPrefix(model, "ft:")  // the id of a call has its owner's name behind it
		free := max(call.Input, call.Output) <= 0 // a row of a trial, or without its price
		if _, err := list.Price(model, time.Time{}); err != nil || !reachable[model] || tuned || free {
			continue
		}
		price := priceText(call)
		models[price] = append(models[price], model)
	}
	lines := make([]string, 0, len(models))
	for price, ids := range models {
		lines = append(lines, strings.Join(ids, " ")+" "+price)
	}
	slices.Sort(lines)
	_, err = fmt.Fprintf(w, "# %s\n%s\n", source, strings.Join(lines, "\n"))
	return err
}

// priceText returns the text of a price in a line of the table, without the model ids. It has the standard
// rates, then sorted variants, then fees of tools in micro-dollars.
func priceText(p prices.CallPrice) string {
	fields := []string{ratesText(p.Rates, p.Sound)}
	for _, v := range p.Variants {
		kind := v.Tier
		if v.Above > 0 {
			kind += fmt.Sprintf(">%d", v.Above)
		}
		fields = append(fields, kind+":"+ratesText(v.Rates, v.Sound))
	}
	slices.Sort(fields[1:])
	for _, tool := range slices.Sorted(maps.Keys(p.Tools)) {
		fields = append(fields, fmt.Sprintf("%s=%d", tool, p.Tools[tool]))
	}
	return strings.Join(slices.Compact(fields), " ")
}

// ratesText returns the text of rates in the table, in micro-dollars a million tokens: numbers separated by
// slashes, the sound's last. It drops zeros at the end, but keeps input and output.
func ratesText(r prices.Rates, sound int64) string {
	text := fmt.Sprintf("%d/%d/%d/%d/%d/%d", r.Input, r.Output, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, sound)
	for strings.HasSuffix(text, "/0") && strings.Count(text, "/") > 1 {
		text = strings.TrimSuffix(text, "/0")
	}
	return text
}

// exitWithError prints the error and ends the program with exit code 1.
func exitWithError(err error) {
	fmt.Fprintln(os.Stderr, "catalogtable:", err)
	os.Exit(1)
}
