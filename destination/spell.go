package destination

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Host is the name without a port, always in the same form, which [Names.Parse] understands.
func (n Name) Host() string {
	plain := n.host(n.Subset, n.Service, n.Datacenter)
	if n.Peer != "" {
		plain = n.host(n.Subset, n.Service, n.Peer+".peer")
	}
	if n.means(plain) {
		return plain
	}
	place := spelled(n.Datacenter) + ".dc"
	if n.Peer != "" {
		place = spelled(n.Peer) + ".peer"
	}
	if host := n.host(spelled(n.Subset), spelled(n.Service), place); n.means(host) {
		return host
	}
	return plain
}

func (n Name) host(subset, service, place string) string {
	host := service + ".service." + place + ".consul"
	if subset != "" {
		return subset + "." + host
	}
	return host
}

// Authority is the name with its port.
func (n Name) Authority() string { return n.Host() + ":" + strconv.Itoa(int(n.Port)) }

// expressible reports whether the name can be written so that it is understood as it is meant.
func (n Name) expressible() bool { return n.means(n.Host()) }

// means reports whether a host is a name for proxies too, and is understood as this one.
func (n Name) means(host string) bool {
	if !isDNS(host) || !utf8.ValidString(n.Subset+n.Service+n.Peer) {
		return false
	}
	back, err := Names{Datacenter: strings.ToLower(n.Datacenter)}.parseHost(host)
	back.Port = n.Port
	return err == nil && back == Name{
		Subset: strings.ToLower(n.Subset), Service: strings.ToLower(n.Service),
		Datacenter: strings.ToLower(n.Datacenter), Peer: strings.ToLower(n.Peer), Port: n.Port,
	}
}

// isDNS holds a host to what a name of DNS can be: a proxy drops what sends to another, and its share with it.
func isDNS(host string) bool {
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// isServerName reports whether a name is one that TLS can ask for.
func isServerName(name string) bool {
	for label := range strings.SplitSeq(strings.ToLower(name), ".") {
		if checkLabel(label) != nil {
			return false
		}
	}
	return isDNS(name)
}

// Words that no name of DNS can have are spelled in hexadecimal, in as many labels as it takes: Consul lets services
// and subsets have such names, and a splitter may send to them.
const (
	hexEnd  = "hex--"
	hexMore = "hexn--" // and the next label goes on with it
	hexSize = 26       // bytes in a label
)

// marks are words that mean something in names.
var marks = []string{namespace, "service", "virtual", "ns", "ap", "dc", "peer", "consul"}

// spelled is a word as labels that have only what a name of DNS can have.
func spelled(word string) string {
	word = strings.ToLower(word)
	if word == "" || checkLabel(word) == nil && isDNS(word) && !strings.HasPrefix(word, "hex") && !slices.Contains(marks, word) {
		return word
	}
	text := ""
	for len(word) > hexSize {
		text += hexMore + hex.EncodeToString([]byte(word[:hexSize])) + "."
		word = word[hexSize:]
	}
	return text + hexEnd + hex.EncodeToString([]byte(word))
}

// joined puts together what [spelled] took apart. What is not spelled so stays.
func joined(labels []string) []string {
	var words []string
	var part []byte
	begun := 0 // how many labels belong to part
	for i, label := range labels {
		rest, last := strings.CutPrefix(label, hexEnd)
		if !last {
			rest, _ = strings.CutPrefix(label, hexMore)
		}
		raw, err := hex.DecodeString(rest)
		if rest == label || err != nil || len(raw) == 0 {
			words, part, begun = append(words, labels[i-begun:i+1]...), nil, 0
			continue
		}
		part, begun = append(part, raw...), begun+1
		if !last {
			continue
		}
		if spellable(string(part)) {
			words = append(words, string(part))
		} else {
			words = append(words, labels[i+1-begun:i+1]...)
		}
		part, begun = nil, 0
	}
	return append(words, labels[len(labels)-begun:]...)
}

// spellable are the words that are understood: names, and nothing that means something in the path of a question to
// Consul.
func spellable(word string) bool {
	if len(word) > maxLabel || !utf8.ValidString(word) || word != strings.ToLower(word) || strings.ContainsAny(word, `/\?#%`) {
		return false
	}
	for _, c := range word {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
