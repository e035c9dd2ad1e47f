package budgethttp

const (
	orgRoute = "/orgs/{org_id}"
	appRoute = orgRoute + "/apps/{app_id}"
)

// routes registers every route there is.
func (s *Server) routes() {
	s.authRoutes()
	s.usageRoutes()
	s.selectionRoutes()
	s.estimateRoutes()
	s.aggregateRoutes()
	s.historyRoutes()
	s.configRoutes()
	s.credentialRoutes()
	s.adjustmentRoutes()
	s.deletionRoutes()
	s.priceRoutes()
	s.healthRoutes()
}
