"""What a stand-in for W&B's server keeps of artifacts: files by their checksums, and versions of what consists of them."""

import base64
import hashlib


class ArtifactStore:
    """Answers what `wandb` asks about artifacts; `url` is that of the server, which keeps what is put below `/stored/`."""

    def __init__(self, url):
        self.url, self.files, self.manifests, self.versions, self.latest = url, {}, {}, [], {}

    def put(self, path, content):
        """Keep what is uploaded to one of the addresses that were given."""
        kind, _, number = path.removeprefix("/stored/").partition("/")
        if kind == "manifest":
            self.manifests[int(number)] = content
        else:
            self.files[hashlib.md5(content).hexdigest()] = content

    def get(self, path):
        """Return a file of an artifact, whose address ends in its checksum, or a manifest."""
        kind, *_, last = path.strip("/").removeprefix("stored/").split("/")
        return self.manifests[int(last)] if kind == "manifest" else self.files[last]

    def answer(self, query, variables):
        """Return the answer to a question about artifacts, None to any other."""
        asked = variables.get("input") or variables
        if "mutation CreateArtifact (" in query:
            names = [one["alias"] for one in asked["aliases"]]
            self.versions.append({"name": asked["artifactCollectionName"], "aliases": names, "type": asked["artifactTypeName"]})
            created = {"id": self._id(len(self.versions) - 1), "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
            return {"createArtifact": {"artifact": created}}
        if "mutation CreateArtifactManifest" in query:
            number = int(base64.b64decode(asked["artifactID"]))
            file = {
                "id": "m",
                "name": "m",
                "displayName": "m",
                "uploadHeaders": [],
                "uploadUrl": f"{self.url}/stored/manifest/{number}",
            }
            return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}
        if "mutation CreateArtifactFiles" in query:
            nodes = [self._room(file) for file in asked["artifactFiles"]]
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        if "mutation CommitArtifact" in query:
            number = int(base64.b64decode(asked["artifactID"]))
            self.versions[number]["committed"] = True
            return {"commitArtifact": {"artifact": {"id": self._id(number), "digest": "d"}}}
        if "query ArtifactMembershipByName" in query:
            return {"project": {"artifactCollectionMembership": self._membership(variables)}}
        if "query ArtifactByID" in query:
            number = int(base64.b64decode(variables["id"]))
            same = [one for one, version in enumerate(self.versions) if version["name"] == self.versions[number]["name"]]
            return {"artifact": self._artifact(number, same.index(number))}
        if "query FetchArtifactManifest" in query:
            number = int(base64.b64decode(variables["artifactID"] if "artifactID" in variables else variables["id"]))
            return {"artifact": {"currentManifest": {"file": {"directUrl": f"{self.url}/stored/manifest/{number}"}}}}
        if "query ArtifactType" in query:
            return {"project": {"artifact": None}}
        return None

    def _room(self, file):
        address = f"{self.url}/stored/file/{base64.b64decode(file['md5']).hex()}"
        room = {"id": "f", "name": file["name"], "displayName": file["name"], "uploadHeaders": [], "uploadUrl": address}
        return room | {"uploadMultipartUrls": None, "storagePath": None, "artifact": {"id": file["artifactID"]}}

    def _membership(self, variables):
        name, _, version = (variables.get("name") or "").partition(":")
        same = [number for number, one in enumerate(self.versions) if one["name"] == name and one.get("committed")]
        index = int(version[1:]) if version[1:].isdecimal() else len(same) - 1
        if not 0 <= index < len(same):
            return None
        artifact = self._artifact(same[index], index)
        membership = {"__typename": "ArtifactCollectionMembership", "id": "n", "versionIndex": index, "aliases": []}
        source = {"artifactCollection": artifact["artifactSequence"], "artifact": artifact}
        return membership | {"createdAt": artifact["createdAt"]} | source

    def _artifact(self, number, index):
        version = self.versions[number]
        project = {"id": "p", "internalId": "p", "name": "ganexp", "entity": {"name": "someone"}}
        source = {"__typename": "ArtifactSequence", "name": version["name"], "project": project}
        return {
            **{"__typename": "Artifact", "id": self._id(number), "artifactSequence": source, "versionIndex": index},
            **{"artifactType": {"name": version["type"]}, "description": None, "metadata": "{}", "aliases": []},
            **{"ttlDurationSeconds": -2, "ttlIsInherited": True, "tags": [], "historyStep": None, "state": "COMMITTED"},
            **{"size": 1, "digest": "d", "digestAlgorithm": "MANIFEST_MD5", "commitHash": "c", "fileCount": 1},
            **{"createdAt": "2026-11-23T00:00:00Z", "updatedAt": None},
        }

    def _id(self, number):
        return base64.b64encode(str(number).encode()).decode()
