package fault

// Fix names the call that puts an error right. The text of an error ends with it: "…; change it
// with Entities.Update". A program with names of its own for the calls prints those instead.
type Fix string

// The calls.
const (
	CreateTable       Fix = "Repository.CreateTable"
	RegisterNamespace Fix = "admin.Namespaces.Register"
	CreateEntity      Fix = "Entities.Create"
	GetEntity         Fix = "Entities.Get"
	UpdateEntity      Fix = "Entities.Update"
	DeleteEntity      Fix = "Entities.Delete"
	SetEntityLimits   Fix = "admin.Limits.Set for the entity"
	SetPlanLimits     Fix = "admin.Limits.Set for the plan"
	SetResourceLimits Fix = "admin.Limits.Set for the resource"
	SetSystemLimits   Fix = "admin.Limits.Set for the system"
	SetConfigs        Fix = "Limits.SetConfigs"
	DeleteLimits      Fix = "Limits.Delete"
	AddLimits         Fix = "Limits.Add"
	RaiseLimit        Fix = "Limits.Raise"
	Upgrade           Fix = "Admin.Upgrade"
	GroupModels       Fix = "LimitConfig.Groups of each model, or say PerModel"
	TopUpBucket       Fix = "Buckets.TopUp"
	GrantWindow       Fix = "Buckets.GrantWindow"
	PutOrg            Fix = "PutOrg"
	PutApp            Fix = "PutApp"
	DeleteOrg         Fix = "DeleteOrg"
	DeleteApp         Fix = "DeleteApp"
)

// After returns text, the description of the fix, with " with " and the call appended. It returns text alone if
// f is empty.
func (f Fix) After(text string) string {
	if f == "" {
		return text
	}
	return text + " with " + string(f)
}
