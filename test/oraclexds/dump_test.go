package oraclexds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
)

// dumpDir is where what servers sent is written to, if anywhere.
func dumpDir() string { return os.Getenv("ORACLE_XDS_DUMP") }

// tree is resources as JSON: type, in its short form, to name to resource.
type tree map[string]map[string]any

// json returns the resources as JSON decodes them. No key or certificate is in it, and the trust domain,
// which each Consul makes up, is always the same.
func (r resources) json(trustDomain string) (tree, error) {
	all := tree{}
	for kind, list := range r {
		of := map[string]any{}
		for name, packed := range list {
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(packed)
			if err != nil {
				return nil, err
			}
			text = pem.ReplaceAll(text, []byte("<$1>"))
			text = bytes.ReplaceAll(text, []byte(trustDomain), []byte(anyTrustDomain))
			var decoded object
			if err := json.Unmarshal(text, &decoded); err != nil {
				return nil, err
			}
			delete(decoded, "@type")
			of[strings.ReplaceAll(name, trustDomain, anyTrustDomain)] = decoded
		}
		all[kind[strings.LastIndex(kind, ".")+1:]] = of
	}
	return all, nil
}

// anyTrustDomain stands for that of the Consul of a run.
const anyTrustDomain = "11111111-2222-3333-4444-555555555555.consul"

// pem is blocks of PEM in JSON.
var pem = regexp.MustCompile(`(?:-----BEGIN ([A-Z ]+)-----[^-]*-----END [A-Z ]+-----(?:\\n)*)+`)

// write puts a value into a file of the directory for dumps, if there is one.
func dump(name string, value any) error {
	if dumpDir() == "" {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	if err := os.MkdirAll(dumpDir(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dumpDir(), name), text.Bytes(), 0o600)
}
