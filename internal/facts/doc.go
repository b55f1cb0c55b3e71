// Package facts holds what is known of the fleet: config entries, services, instances and the
// registrations of proxies, each with how well it is known. Sources write it, products are made from
// it; it is the only mutable state between them.
//
// A source commits readings: all it now sees of a topic. The store finds the difference, decides by
// content whether anything changed, and holds back removals until a reading confirms them, so that
// trouble at the source never passes for emptiness. Readers take a [View], which does not change
// under them, and learn by a doorbell that there is a newer one.
package facts
