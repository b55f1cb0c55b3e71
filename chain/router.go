package chain

import "time"

// ServiceRouter is the service-router entry: routes by HTTP properties of the request.
type ServiceRouter struct {
	Header
	// Routes are tried in order; a catch-all to the service itself always follows them.
	Routes []ServiceRoute `json:",omitempty"`
}

// ServiceRoute sends the requests that match to a destination.
type ServiceRoute struct {
	Match       *RouteMatch       `json:",omitempty"`
	Destination *RouteDestination `json:",omitempty"`
}

// RouteMatch says which requests a route takes; nil or empty takes all.
type RouteMatch struct {
	HTTP *HTTPMatch `json:",omitempty"`
}

// HTTPMatch says which HTTP requests a route takes; all that is set must hold.
type HTTPMatch struct {
	PathExact       string            `json:",omitempty"`
	PathPrefix      string            `json:",omitempty"`
	PathRegex       string            `json:",omitempty"`
	CaseInsensitive bool              `json:",omitempty"`
	Header          []HeaderMatch     `json:",omitempty"`
	QueryParam      []QueryParamMatch `json:",omitempty"`
	Methods         []string          `json:",omitempty"`
}

// HeaderMatch matches one request header by exactly one matcher.
type HeaderMatch struct {
	Name    string `json:",omitempty"`
	Present bool   `json:",omitempty"`
	Exact   string `json:",omitempty"`
	Prefix  string `json:",omitempty"`
	Suffix  string `json:",omitempty"`
	Regex   string `json:",omitempty"`
	Invert  bool   `json:",omitempty"`
}

// QueryParamMatch matches one query parameter by exactly one matcher.
type QueryParamMatch struct {
	Name    string `json:",omitempty"`
	Present bool   `json:",omitempty"`
	Exact   string `json:",omitempty"`
	Regex   string `json:",omitempty"`
}

// RouteDestination is where a route sends its requests and what it does to them on the way.
type RouteDestination struct {
	// Service is empty for the router's own service.
	Service       string `json:",omitempty"`
	ServiceSubset string `json:",omitempty"`
	Namespace     string `json:",omitempty"`
	Partition     string `json:",omitempty"`
	PrefixRewrite string `json:",omitempty"`
	// RequestTimeout of 0 leaves Envoy's default of 15 s; a negative one turns the timeout off.
	RequestTimeout        time.Duration    `json:",omitempty"`
	IdleTimeout           time.Duration    `json:",omitempty"`
	NumRetries            uint32           `json:",omitempty"`
	RetryOnConnectFailure bool             `json:",omitempty"`
	RetryOn               []string         `json:",omitempty"`
	RetryOnStatusCodes    []uint32         `json:",omitempty"`
	RequestHeaders        *HeaderModifiers `json:",omitempty"`
	ResponseHeaders       *HeaderModifiers `json:",omitempty"`
}

// HeaderModifiers change the headers of a request or a response.
type HeaderModifiers struct {
	Add    map[string]string `json:",omitempty"`
	Set    map[string]string `json:",omitempty"`
	Remove []string          `json:",omitempty"`
}
