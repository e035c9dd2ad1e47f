// Package infra has the templates of a deployment, one for CloudFormation and one for Terraform:
// tables, roles with their policies, alarms and functions. What of it is made is said by
// parameters, whose defaults it fills in. It is pure: it sends nothing and reads no clock.
package infra
