package chain_test

import (
	"encoding/json"
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
)

// A canary: one request in ten goes to the new version.
func Example() {
	entries := chain.NewEntrySet(
		&chain.ProxyDefaults{
			Header: chain.Header{Name: chain.GlobalName},
			Config: map[string]any{"protocol": "http"},
		},
		&chain.ServiceResolver{
			Header: chain.Header{Name: "api"},
			Subsets: map[string]chain.Subset{
				"v1": {Filter: `Service.Meta.version == "v1"`},
				"v2": {Filter: `Service.Meta.version == "v2"`},
			},
		},
		&chain.ServiceSplitter{
			Header: chain.Header{Name: "api"},
			Splits: []chain.ServiceSplit{
				{Weight: 90, ServiceSubset: "v1"},
				{Weight: 10, ServiceSubset: "v2"},
			},
		},
	)

	c, problems := chain.Compile(chain.Request{Service: "api", Datacenter: "dc1"}, entries)
	if c == nil {
		fmt.Println(problems)
		return
	}
	for _, split := range c.Nodes[c.StartNode].Splits {
		target := c.Targets[c.Nodes[split.NextNode].Resolver.Target]
		fmt.Printf("%v%% to %s where %s\n", split.Weight, target.ID, target.Subset.Filter)
	}
	// Output:
	// 90% to v1.api.default.default.dc1 where Service.Meta.version == "v1"
	// 10% to v2.api.default.default.dc1 where Service.Meta.version == "v2"
}

// Entries are read from the JSON that Consul's config API has, and the chain prints as the JSON of its
// discovery chain API.
func Example_json() {
	config := []byte(`[
		{"Kind": "service-resolver", "Name": "web", "Redirect": {"Service": "api"}},
		{"Kind": "service-resolver", "Name": "api", "ConnectTimeout": "3s"}
	]`)
	var entries chain.EntrySet
	if err := json.Unmarshal(config, &entries); err != nil {
		fmt.Println(err)
	}
	c, problems := chain.Compile(chain.Request{Service: "web"}, &entries)
	if c == nil {
		fmt.Println(problems)
	}
	out, _ := json.MarshalIndent(c.Nodes, "", "  ")
	fmt.Println(string(out))
	// Output:
	// {
	//   "resolver:api.default.default.dc1": {
	//     "Type": "resolver",
	//     "Name": "api.default.default.dc1",
	//     "Resolver": {
	//       "ConnectTimeout": "3s",
	//       "Target": "api.default.default.dc1"
	//     }
	//   }
	// }
}

// A subset that nobody defined is a problem, in Consul's words.
func ExampleCompile_problem() {
	entries := chain.NewEntrySet(&chain.ServiceResolver{
		Header:   chain.Header{Name: "web", Origin: "shop.hcl:3"},
		Redirect: &chain.Redirect{Service: "api", ServiceSubset: "v3"},
	})
	_, problems := chain.Compile(chain.Request{Service: "web"}, entries)
	fmt.Println(problems[0].Message)
	// Output:
	// service "api" does not have a subset named "v3"
}
