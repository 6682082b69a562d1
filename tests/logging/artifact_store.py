"""What a stand-in for W&B's server keeps of artifacts: files by their checksums, and versions of what consists of them."""

import base64
import hashlib
import json


class ArtifactStore:
    """Answers what `wandb` asks about artifacts; `url` is that of the server, which keeps what is put below `/stored/`."""

    def __init__(self, url):
        self.url, self.files, self.manifests, self.versions = url, {}, {}, []

    def put(self, path, content):
        """Keep what is uploaded to one of the addresses that were given."""
        kind, _, number = path.removeprefix("/stored/").partition("/")
        if kind == "manifest":
            self.manifests[int(number)] = content
        else:
            self.files[hashlib.md5(content).hexdigest()] = content

    def lay_out(self, number, folder):
        """Write the files of a version below a folder, as `wandb artifact get` does."""
        for name, entry in json.loads(self.manifests[number])["contents"].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.files[base64.b64decode(entry["digest"]).hex()])

    def answer(self, query, variables):
        """Return the answer to a question about artifacts, None to any other."""
        asked = variables.get("input") or variables
        if "mutation CreateArtifact (" in query:
            names = [alias["alias"] for alias in asked["aliases"]]
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
        if "query ArtifactType" in query:
            return {"project": {"artifact": None}}
        return None

    def _room(self, file):
        address = f"{self.url}/stored/file/{base64.b64decode(file['md5']).hex()}"
        room = {"id": "f", "name": file["name"], "displayName": file["name"], "uploadHeaders": [], "uploadUrl": address}
        return room | {"uploadMultipartUrls": None, "storagePath": None, "artifact": {"id": file["artifactID"]}}

    def _id(self, number):
        return base64.b64encode(str(number).encode()).decode()
