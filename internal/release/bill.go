package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// bill is a CycloneDX 1.6 document.
type bill struct {
	Schema       string          `json:"$schema"`
	Format       string          `json:"bomFormat"`
	SpecVersion  string          `json:"specVersion"`
	SerialNumber string          `json:"serialNumber,omitempty"`
	Version      int             `json:"version"`
	Metadata     billMetadata    `json:"metadata"`
	Components   []billComponent `json:"components"`
	Dependencies []billNeeds     `json:"dependencies"`
}

type billMetadata struct {
	Timestamp string        `json:"timestamp"`
	Component billComponent `json:"component"`
}

type billComponent struct {
	Ref        string          `json:"bom-ref"`
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Version    string          `json:"version"`
	Scope      string          `json:"scope,omitempty"`
	Hashes     []billHash      `json:"hashes,omitempty"`
	Licenses   []billLicence   `json:"licenses"`
	PURL       string          `json:"purl"`
	Pedigree   *billPedigree   `json:"pedigree,omitempty"`
	References []billReference `json:"externalReferences,omitempty"`
}

type billHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type billLicence struct {
	License billLicenceID `json:"license"`
}

type billLicenceID struct {
	ID string `json:"id"`
}

type billPedigree struct {
	Commits []billCommit `json:"commits"`
}

type billCommit struct {
	UID string `json:"uid"`
}

type billReference struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type billNeeds struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// purl names a module as package URLs do.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + url.QueryEscape(version)
}

// billOfMaterials lists what a binary holds. The modules of this repository have the
// version of the release, as they are tagged together, and the commit: the binary, built
// in a workspace, knows no version of theirs. Neither the time nor the serial number
// is of the moment: one is the commit's, the other follows from all the rest.
func billOfMaterials(id identity, c *contents, program [sha256.Size]byte) ([]byte, error) {
	names := map[string]string{}
	for path, p := range c.parts {
		version := p.version
		if ours(path) {
			version = id.Version
		}
		names[path] = purl(path, version)
	}
	standard := purl("std", strings.TrimPrefix(c.goVersion, "go"))
	b := bill{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: billMetadata{Timestamp: id.Time.Format(time.RFC3339)},
	}
	for _, p := range c.sorted() {
		component, err := componentOf(id, p, names[p.path])
		if err != nil {
			return nil, err
		}
		needs := billNeeds{Ref: names[p.path], DependsOn: []string{standard}}
		for _, needed := range p.needs {
			needs.DependsOn = append(needs.DependsOn, names[needed])
		}
		b.Dependencies = append(b.Dependencies, needs)
		if p.path != c.main {
			b.Components = append(b.Components, component)
			continue
		}
		component.Type, component.Scope, component.Name = "application", "", c.program.name
		component.PURL += "?goarch=" + c.goarch + "&goos=" + c.goos
		component.Hashes = []billHash{{"SHA-256", hex.EncodeToString(program[:])}}
		b.Metadata.Component = component
	}
	for _, v := range c.vendored {
		b.Components = append(b.Components, v.component())
		b.Dependencies = append(b.Dependencies, billNeeds{Ref: v.PURL, DependsOn: []string{}})
	}
	b.Components = append(b.Components, billComponent{
		Ref: standard, Type: "library", Name: "std", Version: strings.TrimPrefix(c.goVersion, "go"), Scope: "required",
		Licenses: []billLicence{{billLicenceID{c.standard.id}}}, PURL: standard,
	})
	b.Dependencies = append(b.Dependencies, billNeeds{Ref: standard, DependsOn: []string{}})
	return b.numbered()
}

func componentOf(id identity, p *part, ref string) (billComponent, error) {
	component := billComponent{
		Ref: ref, Type: "library", Name: p.path, Version: p.version, Scope: "required",
		Licenses: []billLicence{{billLicenceID{p.licence.id}}}, PURL: ref,
	}
	if ours(p.path) {
		component.Version = id.Version
		component.Pedigree = &billPedigree{Commits: []billCommit{{id.Commit}}}
		component.References = []billReference{{"vcs", "https://" + ourModule}}
		return component, nil
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return billComponent{}, fmt.Errorf("%s has the checksum %q, which is none of go.sum", p.path, p.sum)
	}
	component.Hashes = []billHash{{"SHA-256", hex.EncodeToString(sum)}}
	return component, nil
}

// component is the work in a bill of materials.
func (v vendored) component() billComponent {
	component := billComponent{
		Ref: v.PURL, Type: "library", Name: v.Name, Version: v.Version, Scope: "required",
		Licenses: []billLicence{{billLicenceID{v.licence.id}}}, PURL: v.PURL,
	}
	if v.Source != "" {
		component.References = []billReference{{"vcs", v.Source}}
	}
	return component
}

// numbered is the document with a serial number that follows from everything in it.
func (b bill) numbered() ([]byte, error) {
	text, err := b.encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8 of UUIDs: made by a rule of one's own
	b.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	return b.encode()
}

func (b bill) encode() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(b)
	return text.Bytes(), err
}
