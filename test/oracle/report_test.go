package oracle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/catenary-mesh/catenary/chain"
)

// workers is how many questions are asked at once.
const workers = 6

// report makes a difference as small as it can and says what to do with it.
func report(j *judge, d *difference) string {
	if d.change == nil && d.question == nil {
		return d.what + "\n" + lines(d.docs)
	}
	smallest, found := d, false
	s := &shrinker{tries: 600, fails: func(t trial) bool {
		again := repeat(j, t)
		if again == nil || (again.theirs.chain == nil) != (d.theirs.chain == nil) {
			return false
		}
		smallest, found = again, true
		return true
	}}
	if t := d.renamed(); s.still(t) {
		s.shrink(t)
	} else if s.still(d.trial) {
		s.shrink(d.trial)
	}
	out := smallest.what + "\n"
	if !found {
		out += "With these entries alone it does not happen again, so the order of writes matters.\n"
	}
	return out + smallest.file(j.trustDomain)
}

// repeat makes a trial in an empty Consul, and returns how it differs, or nil when it does not or
// cannot be made.
func repeat(j *judge, t trial) *difference {
	if j.clear() != nil {
		return nil
	}
	g := &group{generator: newGenerator(0, 0, nil), judge: j, tally: &tally{}, world: newWorld()}
	g.shouting = t.shouting
	refused := t.docs
	for range 3 {
		var again []object
		for _, doc := range refused {
			c := write(doc)
			v, refusal, err := attempt(j, g.world, c)
			if err != nil {
				return nil
			}
			if refusal != "" || v.grounds == unreadable || v.grounds == invalid {
				again = append(again, doc)
				continue
			}
			g.world.apply(c, v.entry)
		}
		refused = again
	}
	if len(refused) > 0 {
		return nil
	}
	var err error
	if t.change != nil {
		_, err = g.change(*t.change)
	} else {
		err = g.ask(*t.question)
	}
	d, _ := err.(*difference) //nolint:errorlint // it is what group returns, as it is
	return d
}

// suffixes finds what tells the names of one group from those of others, in any case.
var suffixes = regexp.MustCompile(`-[gG]\d+`)

// renamed is the trial with short names, if it is all of one group.
func (t trial) renamed() trial {
	raw, err := json.Marshal(t.docs)
	if err != nil {
		return t
	}
	groups := map[string]bool{}
	for _, s := range suffixes.FindAllString(string(raw), -1) {
		groups[strings.ToLower(s)] = true
	}
	if len(groups) > 1 {
		return t
	}
	short := trial{docs: []object{}, shouting: t.shouting}
	for _, doc := range t.docs {
		short.docs = append(short.docs, shortened(doc))
	}
	if t.change != nil {
		c := *t.change
		c.name = suffixes.ReplaceAllString(c.name, "")
		if c.doc != nil {
			c.doc = shortened(c.doc)
		}
		short.change = &c
	}
	if t.question != nil {
		q := *t.question
		q.Service = suffixes.ReplaceAllString(q.Service, "")
		short.question = &q
	}
	return short
}

func shortened(doc object) object {
	var short object
	if err := json.Unmarshal(suffixes.ReplaceAll(compact(doc), nil), &short); err != nil {
		return doc
	}
	return short
}

// file is the difference as a file of chain/testdata.
func (d *difference) file(trustDomain string) string {
	if d.change != nil && d.change.doc != nil && !isOfChain(d.theirs.refusal) && len(d.docs) == 0 {
		kept := "stored"
		if d.theirs.refusal != "" {
			kept = "refused"
		}
		return fmt.Sprintf("For chain/testdata/validate/%s.%s.json:\n%s", d.change.kind, kept, lines([]object{d.change.doc}))
	}
	docs, q := d.docs, question{}
	switch {
	case d.question != nil:
		q = *d.question
	case d.change.doc == nil:
		return fmt.Sprintf("On deleting %s/%s of\n%s", d.change.kind, d.change.name, lines(docs))
	default:
		docs, q.Service = append(docs, d.change.doc), d.change.name
	}
	archive := &txtar.Archive{
		Comment: []byte("# Say which rule this shows.\n"),
		Files: []txtar.File{
			{Name: "request.json", Data: append(compact(q.fields()), '\n')},
			{Name: "entries.json", Data: []byte(lines(docs))},
			d.theirs.section(trustDomain),
		},
	}
	return "For chain/testdata/scenario:\n" + string(txtar.Format(archive))
}

// fields are those of the question that are not empty.
func (q question) fields() object {
	o := object{"Service": q.Service}
	if q.Datacenter != "" {
		o["Datacenter"] = q.Datacenter
	}
	overrides := object{}
	if p := q.Overrides.Protocol; p != "" {
		overrides["Protocol"] = p
	}
	if d := q.Overrides.ConnectTimeout; d != 0 {
		overrides["ConnectTimeout"] = d.String()
	}
	if m := q.Overrides.MeshGateway; m != "" {
		overrides["MeshGateway"] = m
	}
	if len(overrides) > 0 {
		o["Overrides"] = overrides
	}
	return o
}

// section is Consul's answer as what a scenario wants, with the trust domain of scenarios.
func (a answer) section(trustDomain string) txtar.File {
	if a.chain == nil {
		text := strings.TrimPrefix(a.refusal, chainPrefix)
		return txtar.File{Name: "problems.json", Data: indented([]chain.Problem{{Severity: chain.SeverityError, Message: text}})}
	}
	var c chain.Chain
	raw := bytes.ReplaceAll(a.chain, []byte(trustDomain), []byte(chain.DefaultTrustDomain))
	if err := json.Unmarshal(raw, &c); err != nil {
		return txtar.File{Name: "chain.json", Data: raw}
	}
	c.AutoVirtualIPs, c.ManualVirtualIPs = nil, nil
	return txtar.File{Name: "chain.json", Data: indented(&c)}
}

// lines is a list of entries, one in each line.
func lines(docs []object) string {
	var b strings.Builder
	b.WriteString("[\n")
	for i, doc := range docs {
		b.WriteString("  ")
		b.Write(compact(doc))
		if i < len(docs)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return b.String()
}

func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

func indented(v any) []byte {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte(err.Error())
	}
	return append(raw, '\n')
}
