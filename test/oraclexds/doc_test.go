// Package oraclexds_test holds what the project serves a sidecar against what Consul's own xDS server
// serves it.
//
// Each file of testdata is a case: registrations and config entries. Both servers get the same node and
// token, and every resource that they then send is compared, after nothing but the normalisations in
// normalize_test.go. What still differs must be a row of the table in docs/oracle-xds.md, and each row
// must be needed.
//
// ORACLE_XDS_CASE picks cases by a pattern, and ORACLE_XDS_DUMP names a directory for what both sent.
package oraclexds_test
