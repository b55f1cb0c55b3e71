package oraclexds_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
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
			if err := json.Unmarshal([]byte(same.Replace(string(text))), &decoded); err != nil {
				return nil, err
			}
			eachObject(decoded, func(o object) { anonymise(o, same) })
			delete(decoded, "@type")
			of[same.Replace(name)] = decoded
		}
		all[kind[strings.LastIndex(kind, ".")+1:]] = of
	}
	return all, nil
}

// anonymise replaces keys and certificates by words about them: what a leaf is for, and which root one is.
// Whether they are sent as text or as bytes is no difference.
func anonymise(source object, same *strings.Replacer) {
	text, isText := source["inline_string"].(string)
	if packed, ok := source["inline_bytes"].(string); ok && !isText {
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			return
		}
		text = string(raw)
	}
	var words []string
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		words = append(words, same.Replace(describe(block)))
	}
	if words != nil {
		delete(source, "inline_bytes")
		source["inline_string"] = "<" + strings.Join(words, ", ") + ">"
	}
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
