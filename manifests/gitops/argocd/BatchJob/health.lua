-- Health of a BatchJob, from the conditions that the controller of rayllm-ctl writes. Lua 5.1 without libraries.

local spec = obj.spec or {}
local status = obj.status or {}

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

-- What a condition says, with its reason first.
local function text(one, otherwise)
  local message = one.message
  if message == nil or message == "" then
    message = otherwise
  end
  return one.reason ~= nil and one.reason .. ": " .. message or message
end

if obj.metadata.deletionTimestamp ~= nil then
  return result("Progressing", "is being deleted")
end
if status.observedGeneration == nil or status.observedGeneration < (obj.metadata.generation or 0) then
  return result("Progressing", "the controller has not seen the last change")
end
local stalled = condition("Stalled")
if stalled.status == "True" then
  return result("Degraded", text(stalled, "waits for a change of the spec"))
end
local failed = condition("Failed")
if failed.status == "True" then
  return result("Degraded", text(failed, "the job has failed"))
end
if condition("Complete").status == "True" then
  return result("Healthy", "all rows are answered")
end
if spec.planOnly then
  return result("Suspended", "is only planned")
end
local reconciling = condition("Reconciling")
if status.state == "Stuck" then
  return result("Degraded", text(reconciling, "the job waits"))
end
if status.state == "Suspended" then
  return result("Suspended", "is suspended")
end
if status.state == "Unknown" then
  return result("Unknown", "the state of the job is unknown")
end
return result("Progressing", text(reconciling, "the job has not ended"))
