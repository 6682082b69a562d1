"""What a stand-in for W&B's server does in a sweep: it keeps the configuration, and hands out settings to an agent."""

import json

import yaml


class SweepQueue:
    """Gives one agent the settings in `settings`, one run after another, and then tells it to end."""

    def __init__(self, settings=()):
        self.settings, self.config, self.given = [*settings], "", []

    def answer(self, query, variables):
        """Return the answer to a question about sweeps, None to any other."""
        if "upsertSweep" in query:
            self.config = variables["config"]
            project = {"id": "p", "name": "ganexp", "entity": {"id": "e", "name": "someone"}}
            return {"upsertSweep": {"sweep": {"name": "abc123", "project": project}, "configValidationWarnings": []}}
        if "query SweepWithRuns" in query:
            sweep = {
                "id": "s",
                "name": "abc123",
                "method": "random",
                "state": "RUNNING",
                "config": self.config,
                "runs": {"edges": []},
            }
            return {"project": {"sweep": sweep}}
        if "mutation CreateAgent" in query:
            return {"createAgent": {"agent": {"id": "agent"}}}
        if "mutation Heartbeat" in query:
            return {"agentHeartbeat": {"agent": {"id": "agent"}, "commands": json.dumps([self._command(variables)])}}
        return None

    def _command(self, variables):
        if json.loads(variables["runState"]):
            return {"type": "resume"}  # while a run is being trained
        if not self.settings:
            return {"type": "exit"}
        self.given.append(self.settings.pop(0))
        args = {key: {"value": value} for key, value in self.given[-1].items()}
        return {
            "type": "run",
            "run_id": f"run{len(self.given)}",
            "args": args,
            "program": yaml.safe_load(self.config)["program"],
        }
