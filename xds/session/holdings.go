package session

// entry is what the client knows of one name.
type entry struct {
	// version is that of what it holds; empty when that is not certain, and then equal to none.
	version string
	// resource is what it last accepted on this stream; nil when there is no such thing.
	resource *Resource
	// absent says that it was told that the name does not exist.
	absent bool
}

// holds reports whether the client has a resource of that name, or may have.
func (e entry) holds() bool { return !e.absent }

// certain reports whether it is known to have one.
func (e entry) certain() bool { return e.version != "" || e.resource != nil }

// holdings is what the client knows: by its own word when the stream began, and by what it accepted
// since. What is on the wire is not in it.
type holdings struct {
	entries map[string]entry
	sum     digest
	// count is how many names it is known to have a resource of.
	count int
}

func (h *holdings) set(name string, e entry) {
	if h.entries == nil {
		h.entries = map[string]entry{}
	}
	h.forget(name)
	h.entries[name] = e
	if e.certain() {
		h.count++
	}
	h.sum = h.sum.plus(e.digest(name))
}

func (h *holdings) forget(name string) {
	e, ok := h.entries[name]
	if !ok {
		return
	}
	delete(h.entries, name)
	if e.certain() {
		h.count--
	}
	h.sum = h.sum.minus(e.digest(name))
}

// doubt notes that the client may have taken something of that name, or not.
func (h *holdings) doubt(name string) {
	h.set(name, entry{resource: h.entries[name].resource})
}

func (e entry) digest(name string) digest {
	switch {
	case e.resource != nil: // what a full set goes on listing
		return e.resource.digest
	case e.version != "":
		return pair(name, e.version)
	}
	return digest{}
}

// after returns the digest of what the client holds once it accepts the batch.
func (h *holdings) after(b batch) digest {
	sum := h.sum
	for _, r := range b.puts {
		sum = sum.minus(h.entries[r.Name].digest(r.Name)).plus(r.digest)
	}
	for _, name := range b.gone {
		sum = sum.minus(h.entries[name].digest(name))
	}
	return sum
}
