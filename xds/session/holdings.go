package session

// entry is what the client knows of one name. It never changes: those about a resource are made with
// it, and all sessions share them.
type entry struct {
	// version is that of what it holds; empty when that is not certain, and then equal to none.
	version string
	// resource is what it last accepted on this stream; nil when there is no such thing.
	resource *Resource
	// absent says that it was told that the name does not exist.
	absent bool
	// digest is what a set that goes on listing it has of it.
	digest digest
}

var (
	// absence is the entry of a name that the client knows not to exist.
	absence = &entry{absent: true}
	// unsure is the entry of a name that the client may hold, or not.
	unsure = &entry{}
)

// brought is the entry of what a client holds of an earlier stream.
func brought(name, version string) *entry {
	if version == "" {
		return unsure
	}
	return &entry{version: version, digest: pair(name, version)}
}

// holds reports whether the client has a resource of that name, or may have.
func (e *entry) holds() bool { return e != nil && !e.absent }

// certain reports whether it is known to have one.
func (e *entry) certain() bool { return e != nil && (e.version != "" || e.resource != nil) }

// is reports whether it is known to have that version.
func (e *entry) is(version string) bool { return e != nil && e.version != "" && e.version == version }

// accepted returns what it last accepted on this stream, or nil.
func (e *entry) accepted() *Resource {
	if e == nil {
		return nil
	}
	return e.resource
}

func (e *entry) sum() digest {
	if e == nil {
		return digest{}
	}
	return e.digest
}

// holdings is what the client knows: by its own word when the stream began, and by what it accepted
// since. What is on the wire is not in it.
type holdings struct {
	entries map[string]*entry
	sum     digest
	// count is how many names it is known to have a resource of.
	count int
}

// set notes what the client knows of a name. A name that the resource itself has is kept in place of
// one that came with a request, which would hold on to the memory of that.
func (h *holdings) set(name string, e *entry) {
	if h.entries == nil {
		h.entries = map[string]*entry{}
	}
	h.uncount(h.entries[name])
	h.entries[name] = e
	if e.certain() {
		h.count++
	}
	h.sum = h.sum.plus(e.digest)
}

// grow makes room for n names, if there is nothing yet.
func (h *holdings) grow(n int) {
	if h.entries == nil && n > 0 {
		h.entries = make(map[string]*entry, n)
	}
}

func (h *holdings) forget(name string) {
	if e, ok := h.entries[name]; ok {
		h.uncount(e)
		delete(h.entries, name)
	}
}

func (h *holdings) uncount(e *entry) {
	if e.certain() {
		h.count--
	}
	h.sum = h.sum.minus(e.sum())
}

// doubt notes that the client may have taken something of that name, or not.
func (h *holdings) doubt(name string) {
	if r := h.entries[name].accepted(); r != nil {
		h.set(r.Name, &r.doubted)
		return
	}
	h.set(name, unsure)
}

// share has what is noted of an unchanged resource refer to the resource that all others share.
func (h *holdings) share(r *Resource) {
	now := &r.kept
	if h.entries[r.Name].accepted() != nil {
		now = &r.accepted
	}
	if h.entries[r.Name] != now {
		h.entries[r.Name] = now
	}
}

// after returns the digest of what the client holds once it accepts the batch.
func (h *holdings) after(b *batch) digest {
	sum := h.sum
	for _, r := range b.puts {
		sum = sum.minus(h.entries[r.Name].sum()).plus(r.digest)
	}
	for _, name := range b.gone {
		sum = sum.minus(h.entries[name].sum())
	}
	return sum
}
