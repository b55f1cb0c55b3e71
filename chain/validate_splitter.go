package chain

import (
	"math"
	"reflect"
)

func (f *findings) splitter(e *ServiceSplitter) {
	if len(e.Splits) == 0 {
		f.fault(CodeNoSplits, "Splits", "the splitter has no legs; add at least one, or delete the entry")
		return
	}
	legs := make(map[place][]int)
	var hundredths float64
	for i := range e.Splits {
		leg := &e.Splits[i]
		hundredths += math.Round(float64(leg.Weight * 100))
		if leg.Weight < 0 || leg.Weight > 100 {
			f.warn(CodeWeightOutOfSpan, at("Splits", i)+".Weight", "%v is not between 0 and 100; Consul stores it, Envoy cannot use it", leg.Weight)
		}
		to := place{
			service: orDefault(leg.Service, e.Name), subset: leg.ServiceSubset,
			namespace: leg.Namespace, partition: leg.Partition,
		}
		f.repeatedLeg(e, i, legs[to])
		legs[to] = append(legs[to], i)
	}
	if hundredths != 10_000 {
		f.fault(CodeWeightSum, "Splits", "the weights, rounded to 0.01, sum to %.2f; they must sum to exactly 100", hundredths/100)
	}
}

// repeatedLeg refuses a leg that is an earlier one again. Consul misses those that change headers.
func (f *findings) repeatedLeg(e *ServiceSplitter, i int, earlier []int) {
	leg := &e.Splits[i]
	for _, j := range earlier {
		first := &e.Splits[j]
		if !reflect.DeepEqual(first.RequestHeaders, leg.RequestHeaders) || !reflect.DeepEqual(first.ResponseHeaders, leg.ResponseHeaders) {
			continue
		}
		code, severity := CodeLegRepeated, SeverityError
		if leg.RequestHeaders != nil || leg.ResponseHeaders != nil {
			code, severity = CodeLegRepeatedAlike, SeverityWarning
		}
		f.add(severity, code, at("Splits", i), "this leg is "+at("Splits", j)+" again; make them one with the sum of their weights")
		return
	}
}
