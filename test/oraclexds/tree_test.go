package oraclexds_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
)

// tree is resources as JSON decodes them: type, in its short form, to name to resource.
type tree map[string]map[string]any

// anyTrustDomain stands for that of the Consul of a run.
const anyTrustDomain = "td.consul"

// tree returns the resources. Keys and certificates are replaced by what they are for, and the trust
// domain, which each Consul makes up, is always the same.
func (r resources) tree(trustDomain string) (tree, error) {
	same := strings.NewReplacer(trustDomain, anyTrustDomain)
	all := tree{}
	for kind, list := range r {
		of := map[string]any{}
		for name, packed := range list {
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(packed)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			var decoded object
			if err := json.Unmarshal([]byte(same.Replace(anonymous(string(text)))), &decoded); err != nil {
				return nil, err
			}
			delete(decoded, "@type")
			of[same.Replace(name)] = decoded
		}
		all[kind[strings.LastIndex(kind, ".")+1:]] = of
	}
	return all, nil
}

// armoured is a string of JSON that holds blocks of PEM, and nothing else.
var armoured = regexp.MustCompile(`"(?:-----BEGIN [A-Z ]+-----[^-"]*-----END [A-Z ]+-----(?:\\n)*)+"`)

// anonymous replaces keys and certificates by words about them: what a leaf is for, and which root one is.
func anonymous(text string) string {
	return armoured.ReplaceAllStringFunc(text, func(quoted string) string {
		var blocks string
		if err := json.Unmarshal([]byte(quoted), &blocks); err != nil {
			return quoted
		}
		var words []string
		for block, rest := pem.Decode([]byte(blocks)); block != nil; block, rest = pem.Decode(rest) {
			words = append(words, describe(block))
		}
		return `"<` + strings.Join(words, ", ") + `>"`
	})
}

func describe(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return "key"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "unreadable certificate"
	case cert.IsCA:
		return "authority " + strings.SplitN(cert.Subject.CommonName, ".", 2)[0]
	case len(cert.URIs) == 1:
		return "certificate of " + cert.URIs[0].String()
	}
	return "certificate without identity"
}
