-- Health of an LLMService, from the conditions that the controller of rayllm-ctl writes. Lua 5.1 without libraries.

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
if spec.suspend then
  return result("Suspended", "is suspended")
end
if spec.planOnly then
  return result("Suspended", "is only planned")
end
local reconciling = condition("Reconciling")
if reconciling.status == "True" then
  return result("Progressing", text(condition("Ready"), "is starting or changing"))
end
local ready = condition("Ready")
if ready.status == "True" then
  return result("Healthy", "serves its models")
end
-- It is not ready and nothing is on its way, such as a service that waits for GPUs.
if ready.status == "False" then
  if ready.reason == "Suspended" then
    return result("Suspended", "is suspended, though its spec does not ask for that")
  end
  return result("Degraded", text(ready, "is not ready"))
end
return result("Unknown", text(ready, "its state is unknown"))
