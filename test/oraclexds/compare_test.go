package oraclexds_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func parse(t *testing.T, text string) tree {
	t.Helper()
	var decoded tree
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// found compares, and prints what differs as report does.
func found(t *testing.T, theirs, ours string) string {
	t.Helper()
	return report(differences("x", parse(t, theirs), parse(t, ours)))
}

func TestWhatIsSaidInTwoWaysIsTheSame(t *testing.T) {
	for name, pair := range map[string][2]string{
		"certificates by name": {
			`{"Cluster": {"a": {"tls_certificates": [{"key": "k"}], "validation_context": {"names": ["n"], "trusted_ca": "r"}}}}`,
			`{"Cluster": {"a": {
				"tls_certificate_sds_secret_configs": [{"name": "leaf", "sds_config": {"ads": {}, "resource_api_version": "V3"}}],
				"combined_validation_context": {
					"default_validation_context": {"names": ["n"]},
					"validation_context_sds_secret_config": {"name": "roots", "sds_config": {"ads": {}, "resource_api_version": "V3"}}}}},
			  "Secret": {"leaf": {"tls_certificate": {"key": "k"}}, "roots": {"validation_context": {"trusted_ca": "r"}}}}`,
		},
		"roots alone by name": {
			`{"Listener": {"a": {"validation_context": {"trusted_ca": "r"}}}}`,
			`{"Listener": {"a": {"validation_context_sds_secret_config": {"name": "roots", "sds_config": {"ads": {}, "resource_api_version": "V3"}}}},
			  "Secret": {"roots": {"validation_context": {"trusted_ca": "r"}}}}`,
		},
		"names of policies": {
			`{"Listener": {"a": {"policies": {"one": {"principals": [1]}, "two": {"principals": [2]}}}}}`,
			`{"Listener": {"a": {"policies": {"b": {"principals": [1]}, "a": {"principals": [2]}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(t, pair[0], pair[1]); got != "" {
				t.Errorf("it is a difference:\n%s", got)
			}
		})
	}
}

func TestWhatDiffersIsFound(t *testing.T) {
	for name, c := range map[string]struct{ theirs, ours, want string }{
		"a resource": {
			`{"Cluster": {"a": {}}}`, `{"Listener": {"b/c": {}}}`,
			"Cluster/a\n  Consul   {}\n  Catenary nothing\n  in x\nListener/b%2Fc\n  Consul   nothing\n  Catenary {}\n  in x\n",
		},
		"a field": {
			`{"Cluster": {"a": {"b": {"c": 1}}}}`, `{"Cluster": {"a": {"b": {"c": 2}}}}`,
			"Cluster/a/b/c\n  Consul   1\n  Catenary 2\n  in x\n",
		},
		"the order of named elements": {
			`{"Cluster": {"a": [{"name": "f"}, {"name": "g"}]}}`, `{"Cluster": {"a": [{"name": "g"}, {"name": "f"}]}}`,
			"Cluster/a/(order)\n  Consul   [\"f\",\"g\"]\n  Catenary [\"g\",\"f\"]\n  in x\n",
		},
		"an element": {
			`{"Cluster": {"a": [1, 2]}}`, `{"Cluster": {"a": [1]}}`,
			"Cluster/a/1\n  Consul   2\n  Catenary nothing\n  in x\n",
		},
		"a secret that is asked for elsewhere": {
			`{"Listener": {"a": {"tls_certificates": [1]}}}`,
			`{"Listener": {"a": {"tls_certificate_sds_secret_configs": [{"name": "leaf", "sds_config": {"path": "p"}}]}}, "Secret": {"leaf": {"tls_certificate": 1}}}`,
			"Listener/a/tls_certificate_sds_secret_configs\n  Consul   nothing\n" +
				"  Catenary [{\"name\":\"leaf\",\"sds_config\":{\"path\":\"p\"}}]\n  in x\n" +
				"Listener/a/tls_certificates\n  Consul   [1]\n  Catenary nothing\n  in x\n",
		},
		"a name of endpoints, but not the endpoints": {
			`{"Cluster": {"a": {}}, "ClusterLoadAssignment": {"a": {"cluster_name": "a", "b": 1}}}`,
			`{"Cluster": {"a": {"eds_cluster_config": {"service_name": "s"}}}, "ClusterLoadAssignment": {"s": {"cluster_name": "s", "b": 1}}}`,
			"Cluster/a/eds_cluster_config\n  Consul   nothing\n  Catenary {\"service_name\":\"s\"}\n  in x\n",
		},
		"a reference, but not what it leads to": {
			`{"Listener": {"a": {"route_config": {"name": "r", "b": 1}, "filters": [{"name": "e", "typed_config": {"@type": "T"}}]}}}`,
			`{"Listener": {"a": {"rds": {"route_config_name": "r"}, "filters": [{"name": "f", "config_discovery": {}}]}},
			  "RouteConfiguration": {"r": {"name": "r", "b": 1}}, "TypedExtensionConfig": {"f": {"typed_config": {"@type": "T"}}}}`,
			"Listener/a/filters/T/config_discovery\n  Consul   nothing\n  Catenary {}\n  in x\n" +
				"Listener/a/filters/T/name\n  Consul   \"e\"\n  Catenary \"f\"\n  in x\n" +
				"Listener/a/rds\n  Consul   nothing\n  Catenary {\"route_config_name\":\"r\"}\n  in x\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(t, c.theirs, c.ours); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestTheTableExplainsWhatItSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	const text = "| case | where | Consul | Catenary | why |\n|---|---|---|---|---|\n" +
		"| `*` | `Cluster/*/a` | nothing | `1` | because |\n" +
		"| `tcp*` | `**/regex` | `\"a\\|b*` | `*` | because |\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := readTable(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []difference{
		{"http", []string{"Cluster", "x", "a"}, nothing, "1"},
		{"tcp-x", []string{"Listener", "y", "regex"}, `"a|b"`, "2"},
		{"tcp", []string{"regex"}, `"a|b|c"`, nothing},
	} {
		if left := unexplained(table, []difference{d}); len(left) != 0 {
			t.Errorf("not explained: %v", left)
		}
	}
	for _, d := range []difference{
		{"http", []string{"Cluster", "x", "y", "a"}, nothing, "1"},
		{"http", []string{"Cluster", "x", "a"}, nothing, "2"},
		{"http", []string{"Listener", "y", "regex"}, `"a|b"`, "2"},
	} {
		if left := unexplained(table, []difference{d}); len(left) != 1 {
			t.Errorf("explained: %v", d)
		}
	}
}

func TestTheTableOfTheDocsIsReadable(t *testing.T) {
	if _, err := readTable(tableFile); err != nil {
		t.Error(err)
	}
}
