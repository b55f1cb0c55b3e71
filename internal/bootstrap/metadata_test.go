package bootstrap

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
)

func TestMetadataSurvivesTheNode(t *testing.T) {
	want := Metadata{Service: "web", Upstreams: []Upstream{
		{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191},
		{Service: "stock", Datacenter: "dc2", BindAddress: "::1", BindPort: 65535},
	}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	// In a node the metadata is a protobuf struct, in which every number is a float.
	var inNode structpb.Value
	if err := inNode.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if text, err = inNode.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	got, err := ParseMetadata(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestMetadataIsReadWithRoomForMore(t *testing.T) {
	got, err := ParseMetadata([]byte(`{"service": "web", "new": 1, "upstreams": [{"service": "api", "bind_port": 9191, "new": true}]}`))
	want := Metadata{Service: "web", Upstreams: []Upstream{{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestMetadataThatIsWrongIsRefused(t *testing.T) {
	for text, reason := range map[string]string{
		`{`:        "unexpected end of JSON",
		`"web"`:    "cannot unmarshal string",
		`{}`:       "the service has no name",
		`null`:     "the service has no name",
		`{"s":""}`: "the service has no name",
		`{"service":"web","upstreams":[{"service":"api","bind_port":1.5}]}`:                                          "cannot unmarshal number 1.5",
		`{"service":"web","upstreams":[{"service":"api","bind_port":80},{"bind_port":81}]}`:                          "upstreams[1]: the service has no name",
		`{"service":"web","upstreams":[{"service":"api","bind_port":0}]}`:                                            "upstreams[0]: the port 0",
		`{"service":"web","upstreams":[{"service":"api","bind_address":"x","bind_port":80}]}`:                        `upstreams[0]: the address "x"`,
		`{"service":"web","upstreams":[{"service":"a","bind_port":80},{"service":"b","bind_port":80}]}`:              `"a" and "b" both listen at 127.0.0.1:80`,
		`{"service":"web","upstreams":[{"service":"a","datacenter":"d c","bind_address":"::1","bind_port":80}]}`:     `the datacenter "d c"`,
		`{"service":"web","upstreams":[{"service":"a\u0000","bind_address":"127.0.0.1","bind_port":80}]}`:            `the service "a\x00"`,
		`{"service":"web","upstreams":[{"service":"a","bind_address":"127.0.0.1","bind_port":"9191"}]}`:              "cannot unmarshal string",
		`{"service":"web","upstreams":[{"service":"a","bind_address":"127.0.0.1","bind_port":9191000000000000000}]}`: "not in 1 to 65535",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseMetadata([]byte(text))
			if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "node metadata catenary") {
				t.Errorf("got %v; want an error about %q", err, reason)
			}
		})
	}
}
