package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/xds/session"
)

// A behaviour is a script. Each line is one step, followed by one turn; lines beginning with ">" are
// the responses which that turn must have made, and no others. Steps joined by ";" share a turn.
//
//	offer cluster/a=1 route/r=2>a   these resources now exist, with versions and refs
//	gone cluster/a                  these names are known not to exist (the state of all at first)
//	unknown endpoint/a              nothing is known of these names
//	incomplete, complete            of the offer
//	dirty cluster/a, dirty all      a note without a change
//	ask TYPE [NAME...]              SotW: the whole list; delta: subscribe. With NAME=VERSION in delta
//	                                also as an initial version, with =VERSION SotW's version_info
//	keep TYPE NAME=VERSION...       delta: initial versions of a wildcard
//	drop TYPE NAME...               delta: unsubscribe
//	late TYPE [NAME...]             like ask, with a nonce that is not the last one
//	ack TYPE, nack TYPE TEXT        answer the last response, in SotW with the same list
//	late-ack TYPE, late-nack TYPE   answer with a nonce that is not the last one
//	features NAME...                of the node in the next message
//	pass 1s                         time passes
//	wake 1s                         the last turn wanted to be called again after that long ("none")
//	status TYPE STATE               of the type
//	book TYPE [NAME=STANDING...]    of all names of the type, with the versions in force and refused
//
// Responses read "cluster a=1 b=2" (SotW; "a=" is an empty assignment) or "cluster +a=1 -b" (delta),
// with "a=1~10s" for a TTL and "~a" (SotW) or "~a=1" (delta) for a heartbeat, and "cluster nothing" when they are empty;
// "overdue" marks what did not wait any longer.
type script struct {
	t     *testing.T
	form  session.Form
	s     *session.Session
	offer *offer
	now   time.Time
	wake  time.Time
	out   []string
	asked map[string][]string // SotW
	nonce map[string]string
	info  map[string]string
	node  *corev3.Node // of the next message
	// untyped: requests do not name their type.
	untyped bool
}

func newScript(t *testing.T, form session.Form) *script {
	t.Helper()
	return &script{
		t: t, form: form, s: session.New(session.Config{Form: form, ControlPlane: "test"}), offer: newOffer(),
		now: time.Unix(1e9, 0), asked: map[string][]string{}, nonce: map[string]string{}, info: map[string]string{},
	}
}

// run runs one behaviour after another, in the form.
func run(t *testing.T, form session.Form, behaviours map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(behaviours)) {
		t.Run(name, func(t *testing.T) {
			newScript(t, form).run(behaviours[name])
		})
	}
}

func (sc *script) run(text string) {
	sc.t.Helper()
	step := "the beginning"
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			want := strings.TrimPrefix(line, "> ")
			if len(sc.out) == 0 {
				sc.t.Fatalf("after %q: no more responses, want %q", step, want)
			}
			if sc.out[0] != want {
				sc.t.Fatalf("after %q:\n got %q\nwant %q", step, sc.out, want)
			}
			sc.out = sc.out[1:]
		default:
			sc.quiet(step)
			step = line
			sc.step(line)
		}
	}
	sc.quiet(step)
}

func (sc *script) quiet(step string) {
	sc.t.Helper()
	if len(sc.out) > 0 {
		sc.t.Fatalf("after %q: unexpected %q", step, sc.out)
	}
}

func (sc *script) step(line string) {
	sc.t.Helper()
	for _, command := range strings.Split(line, ";") {
		words := strings.Fields(command)
		if sc.check(words[0], words[1:]) {
			return
		}
		if !sc.world(words[0], words[1:]) && !sc.client(words[0], words[1:]) {
			sc.t.Fatalf("unknown step %q", command)
		}
	}
	responses, wake := sc.s.Turn(sc.now, sc.offer)
	sc.wake = wake
	for i := range responses {
		sc.receive(&responses[i])
	}
}

// check looks without a turn.
func (sc *script) check(verb string, args []string) bool {
	sc.t.Helper()
	switch verb {
	case "wake":
		got := "none"
		if !sc.wake.IsZero() {
			got = sc.wake.Sub(sc.now).String()
		}
		if got != args[0] {
			sc.t.Fatalf("wakes after %s, want %s", got, args[0])
		}
	case "status":
		if got := sc.status(args[0]).Sync; string(got) != args[1] {
			sc.t.Fatalf("%s is %s, want %s", args[0], got, args[1])
		}
	case "book":
		if got, want := sc.book(args[0]), strings.Join(args[1:], " "); got != want {
			sc.t.Fatalf("the book has %q, want %q", got, want)
		}
	default:
		return false
	}
	return true
}

func (sc *script) status(name string) session.TypeStatus {
	for _, st := range sc.s.Status(sc.now).Types {
		if st.Type.Name == name {
			return st
		}
	}
	return session.TypeStatus{}
}

// world changes what there is.
func (sc *script) world(verb string, args []string) bool {
	switch verb {
	case "offer":
		for _, arg := range args {
			sc.offer.put(arg)
		}
	case "gone":
		for _, arg := range args {
			delete(sc.offer.resources, arg)
			delete(sc.offer.unknown, arg)
		}
	case "unknown":
		for _, arg := range args {
			sc.offer.unknown[arg] = true
		}
	case "incomplete":
		sc.offer.incomplete = true
	case "complete":
		sc.offer.incomplete = false
	case "dirty":
		if args[0] == "all" {
			sc.s.DirtyAll()
			return true
		}
	case "pass":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			sc.t.Fatal(err)
		}
		sc.now = sc.now.Add(d)
		return true
	default:
		return false
	}
	for _, arg := range args {
		key, _, _ := strings.Cut(arg, "=")
		typ, name, _ := strings.Cut(key, "/")
		sc.s.Dirty(typeOf(typ), name)
	}
	return true
}

// client sends what the client says.
func (sc *script) client(verb string, args []string) bool {
	if verb == "features" {
		sc.node = &corev3.Node{ClientFeatures: args}
		return true
	}
	typ, names := args[0], args[1:]
	req := &session.Request{Node: sc.node, TypeURL: typeOf(typ).URL, Nonce: sc.nonce[typ], Version: sc.info[typ]}
	sc.node = nil
	if sc.untyped {
		req.TypeURL = ""
	}
	if strings.HasPrefix(verb, "late") {
		req.Nonce = "late"
	}
	switch strings.TrimPrefix(verb, "late-") {
	case "ask", "late", "keep":
		sc.ask(req, verb, names)
		if verb != "late" {
			sc.asked[typ] = req.Names
		}
	case "drop":
		req.Unsubscribe = names
	case "ack", "nack":
		req.Names = sc.asked[typ]
		if verb == "nack" || verb == "late-nack" {
			req.Error = &session.Refusal{Code: 3, Message: strings.Join(names, " ")}
		}
	default:
		return false
	}
	if sc.form == session.SotW {
		req.Subscribe, req.Initial = nil, nil
	} else {
		req.Names = nil
		if !strings.HasSuffix(verb, "ack") && verb != "late" {
			req.Nonce = "" // a spontaneous delta message has none
		}
	}
	if err := sc.s.Request(sc.now, req); err != nil {
		sc.out = append(sc.out, "error: "+err.Error())
	}
	return true
}

func (sc *script) ask(req *session.Request, verb string, names []string) {
	for _, arg := range names {
		name, version, given := strings.Cut(arg, "=")
		if given && name == "" {
			req.Version = version
			continue
		}
		if given {
			if req.Initial == nil {
				req.Initial = map[string]string{}
			}
			req.Initial[name] = version
		}
		if verb != "keep" {
			req.Names = append(req.Names, name)
			req.Subscribe = append(req.Subscribe, name)
		}
	}
}

func (sc *script) receive(r *session.Response) {
	line := r.Type.Name
	plus := ""
	if sc.form == session.Delta {
		plus = "+"
	}
	sameAsMessage(sc.t, sc.form, r)
	contents, removed := read(sc.form, r)
	for _, c := range contents {
		switch {
		case c.beat && sc.form == session.SotW && c.version == r.Version: // of the whole response
			line += " ~" + c.name
		case c.beat:
			line += fmt.Sprintf(" ~%s=%s", c.name, c.version)
		default:
			line += fmt.Sprintf(" %s%s=%s", plus, c.name, c.version)
		}
		if c.ttl > 0 && !c.beat {
			line += "~" + c.ttl.String()
		}
	}
	for _, name := range removed {
		line += " -" + name
	}
	if len(contents)+len(removed) == 0 {
		line += " nothing"
	}
	if r.Overdue > 0 {
		line += " overdue"
	}
	sc.nonce[r.Type.Name], sc.info[r.Type.Name] = r.Nonce, r.Version
	sc.out = append(sc.out, line)
}

func typeOf(name string) *session.Type {
	for _, t := range session.Types() {
		if t.Name == name {
			return t
		}
	}
	panic("no type " + name)
}

// offer is what there is, by type/name; what is not in it is absent.
type offer struct {
	resources  map[string]*session.Resource
	unknown    map[string]bool
	incomplete bool
	lookups    int
}

func newOffer() *offer {
	return &offer{resources: map[string]*session.Resource{}, unknown: map[string]bool{}}
}

// put takes TYPE/NAME=VERSION[~TTL][>REF,REF].
func (o *offer) put(text string) {
	key, rest, _ := strings.Cut(text, "=")
	rest, refs, _ := strings.Cut(rest, ">")
	version, ttl, _ := strings.Cut(rest, "~")
	typ, name, _ := strings.Cut(key, "/")
	var to []string
	if refs != "" {
		to = strings.Split(refs, ",")
	}
	r := session.NewVersion(typeOf(typ), name, version, []byte(text), to)
	if d, err := time.ParseDuration(ttl); err == nil {
		r.Keep(d)
	}
	o.resources[key] = r
	delete(o.unknown, key)
}

func (o *offer) Lookup(t *session.Type, name string) (*session.Resource, session.State) {
	o.lookups++
	key := t.Name + "/" + name
	if o.unknown[key] {
		return nil, session.Unknown
	}
	if r := o.resources[key]; r != nil {
		return r, session.Present
	}
	return nil, session.Absent
}

func (o *offer) Names(t *session.Type) []string {
	var names []string
	for key := range o.resources {
		// A name with a dot is there for those who ask for it only.
		if typ, name, _ := strings.Cut(key, "/"); typ == t.Name && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (o *offer) Complete() bool { return !o.incomplete }
