package demo

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/catenary-mesh/catenary/examples"
)

// instance is one of the shop's backends.
type instance struct {
	// port is the one in the example's files.
	port int
	id   string
	// label is what tells its answers from those of the others.
	label string
}

// instances is those that the example's files register.
func instances() []instance {
	return []instance{
		{9101, "api-v1-1", "v1"},
		{9102, "api-v1-2", "v1"},
		{9103, "api-v2-1", "v2"},
		{9104, "stock-1", "stock"},
		{9105, "stock-backup-1", "stock-backup"},
	}
}

// writeShop writes the example's files to the directory, with each port replaced by the one to which
// it has moved.
func writeShop(dir string, moved map[int]int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	files, err := fs.Sub(examples.Shop, "shop")
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), movePorts(text, moved), 0o644)
	})
}

// movePorts replaces the ports of service definitions.
func movePorts(text []byte, moved map[int]int) []byte {
	port := regexp.MustCompile(`(?m)^\s*port\s*=\s*(\d+)$`)
	digits := regexp.MustCompile(`\d+$`)
	return port.ReplaceAllFunc(text, func(line []byte) []byte {
		old, _ := strconv.Atoi(string(digits.Find(line))) // digits by the expression
		if to, ok := moved[old]; ok {
			return digits.ReplaceAll(line, []byte(strconv.Itoa(to)))
		}
		return line
	})
}
