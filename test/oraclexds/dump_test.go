package oraclexds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// dumpDir is where what servers sent is written to, if anywhere.
func dumpDir() string { return os.Getenv("ORACLE_XDS_DUMP") }

// dump puts a value into a file of the directory for dumps, if there is one.
func dump(name string, value any) error {
	text, isText := value.(string)
	if dumpDir() == "" {
		return nil
	}
	if !isText {
		var err error
		if text, err = indented(value); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dumpDir(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dumpDir(), name), []byte(text), 0o600)
}

func indented(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(value)
	return text.String(), err
}
