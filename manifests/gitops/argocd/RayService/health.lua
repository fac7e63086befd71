-- Health of a RayService, from the object alone. Lua 5.1 without libraries. Fields and reasons: KubeRay 1.6
-- (ray-operator/apis/ray/v1/rayservice_types.go); states of applications and deployments: Ray Serve.

local status = obj.status or {}
local generation = obj.metadata.generation or 0

local function result(state, message)
  return {status = state, message = message}
end

local function condition(kind)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return {}
end

-- The first application or deployment in one of `states`, as text; nil if there is none.
local function found(service, states)
  for name, app in pairs((service or {}).applicationStatuses or {}) do
    if states[app.status] then
      return "application " .. name .. " is " .. app.status .. ": " .. (app.message or "")
    end
    for deployment, one in pairs(app.serveDeploymentStatuses or {}) do
      if states[one.status] then
        return "deployment " .. deployment .. " is " .. one.status .. ": " .. (one.message or "")
      end
    end
  end
  return nil
end

local ready = condition("Ready")

if obj.metadata.deletionTimestamp ~= nil then
  return result("Progressing", "is being deleted")
end
if (obj.spec or {}).suspend then
  return result("Suspended", "is suspended")
end
-- KubeRay does not set observedGeneration when it rejects the first version of an object.
local observed = status.observedGeneration or ready.observedGeneration
if observed ~= nil and observed < generation then
  return result("Progressing", "the operator has not seen the last change")
end
if ready.status == "False" and ready.reason == "ValidationFailed" then
  return result("Degraded", ready.message)
end
if status.observedGeneration == nil then
  return result("Progressing", "the operator has not seen the object")
end
if ready.status == "False" and (ready.reason == "InitializingTimeout" or ready.reason == "ZeroServeEndpoints") then
  return result("Degraded", ready.message or ready.reason)
end

local failed = {DEPLOY_FAILED = true, UNHEALTHY = true}
local failure = found(status.activeServiceStatus, failed) or found(status.pendingServiceStatus, failed)
if failure ~= nil then
  return result("Degraded", failure)
end
for _, kind in ipairs({"UpgradeInProgress", "RollbackInProgress", "Suspending", "Suspended"}) do
  if condition(kind).status == "True" then
    return result("Progressing", kind)
  end
end
if ready.status ~= "True" then
  return result("Progressing", ready.message or "is starting")
end

-- Ready alone says that there was an endpoint. Applications of autoscaled services change between these states.
local moving = found(status.activeServiceStatus, {NOT_STARTED = true, DEPLOYING = true, DELETING = true, UPDATING = true})
if moving ~= nil then
  return result("Progressing", moving)
end
if next((status.activeServiceStatus or {}).applicationStatuses or {}) == nil then
  return result("Progressing", "the state of the applications is not known")
end
if (status.numServeEndpoints or 0) == 0 then
  return result("Progressing", "has no endpoint")
end
return result("Healthy", status.numServeEndpoints .. " endpoints")
