package chain

// ServiceSplitter is the service-splitter entry: it divides requests among services and subsets.
type ServiceSplitter struct {
	Header
	// Splits have weights that sum to 100, in steps of 0.01.
	Splits []ServiceSplit `json:",omitempty"`
}

// ServiceSplit is one leg of a splitter.
type ServiceSplit struct {
	// Weight is a percentage.
	Weight float32
	// Service is empty for the splitter's own service.
	Service         string           `json:",omitempty"`
	ServiceSubset   string           `json:",omitempty"`
	Namespace       string           `json:",omitempty"`
	Partition       string           `json:",omitempty"`
	RequestHeaders  *HeaderModifiers `json:",omitempty"`
	ResponseHeaders *HeaderModifiers `json:",omitempty"`
}
