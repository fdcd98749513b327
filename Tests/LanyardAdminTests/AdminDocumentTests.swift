import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath

/// The OpenAPI document of the admin API against its routes, problems and responses.
@Suite struct AdminDocumentTests {
    private static func document() throws -> JSON { try JSON(AdminDocument.response.body) }

    private static func read(_ method: RequestHead.Method, _ path: String) -> AdminCall.Parsed {
        Array(path.utf8).withUnsafeBufferPointer { AdminCall.read(method, $0) }
    }

    /// A path with values for its parameters.
    private static func filled(_ path: String) -> String {
        var path = path
        for parameter in AdminRoute.Parameter.allCases {
            path = path.replacing("{\(parameter.rawValue)}", with: parameter == .login ? "0123456789abcdef" : "some")
        }
        return path
    }

    @Test("every operation of the document is a call, every other method of its path is not, and no route is missing")
    func operations() throws {
        let paths = try Self.document()["paths"].object
        let methods: [(String, RequestHead.Method)] = [
            ("get", .get), ("post", .post), ("put", .put), ("delete", .delete), ("patch", .patch),
        ]
        var names: [String] = []
        for (path, operations) in paths {
            for (word, method) in methods {
                switch (Self.read(method, Self.filled(path)), operations[word]["operationId"].string) {
                case (.call(let call), let name?):
                    #expect(call.auditName == name)
                    names.append(name)
                case (.methodNotAllowed(let allow), nil):
                    let words = [("get", "GET, HEAD"), ("post", "POST"), ("delete", "DELETE")]
                    let known = words.filter { operations.object.keys.contains($0.0) }
                    #expect(allow == known.map(\.1).joined(separator: ", "))
                case (let parsed, let name):
                    Issue.record("\(word) \(path): \(parsed), \(name ?? "not in the document")")
                }
            }
        }
        #expect(names.count == AdminRoute.allCases.count && Set(names).count == names.count)
    }

    @Test("each parameter of a path is declared, and no two paths overlap")
    func parameters() throws {
        for (path, operations) in try Self.document()["paths"].object {
            let inPath = Set(AdminRoute.Parameter.allCases.map(\.rawValue).filter { path.contains("{\($0)}") })
            for operation in operations.object.values {
                let declared = operation["parameters"].array.filter { $0["in"].string == "path" }
                #expect(Set(declared.compactMap { $0["name"].string }) == inPath)
            }
            let segments = Self.filled(path).split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            #expect(Set(AdminRoute.matching(segments)?.routes.map(\.path) ?? []) == [path])
        }
    }

    /// The names and statuses of all problems that the source of this listener makes.
    private static func problemsInSource() throws -> [String: Set<String>] {
        let folder = "\(Products.root)/Sources/LanyardAdmin"
        let files = try FileManager.default.subpathsOfDirectory(atPath: folder).filter { $0.hasSuffix(".swift") }
        var found: [String: Set<String>] = [:]
        for file in files where !file.hasPrefix("Health/") {
            let text = try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8)
            for match in text.matches(of: #/problem\(\s*(\d{3}), "([a-z-]+)"/#) {
                found[String(match.2), default: []].insert(String(match.1))
            }
            for match in text.matches(of: #/problem\(\s*\.(\w+), (status: \w+, )?"/#) {
                let problem = try #require(AdminProblem.allCases.first { "\($0)" == match.1 })
                // The others have one status, which the type names.
                #expect(match.2 == nil || problem == .identityError, "\(match.0)")
                found[problem.rawValue, default: []].formUnion(problem.statuses)
            }
        }
        for kind in HeadError.Kind.allCases {
            let problem = Problem.malformed(HeadError(kind, "test"))
            found[problem.name, default: []].insert("\(problem.status)")
        }
        return found
    }

    @Test("the document has each problem of the source with its status, and no other")
    func problems() throws {
        let listed = AdminProblem.allCases.map { ($0.rawValue, Set($0.statuses)) }
        #expect(try Self.problemsInSource() == Dictionary(uniqueKeysWithValues: listed))
        let responses = try Self.document()["paths"].object.values.flatMap(\.object.values).map(\.["responses"])
        for problem in AdminProblem.allCases {
            for status in problem.statuses {
                let type = JSON.string("urn:lanyard:problem:" + problem.rawValue)
                let count = responses.count { response in
                    let schema = response[status]["content"]["application/problem+json"]["schema"]["allOf"][1]
                    return schema["properties"]["type"]["enum"].array.contains { $0.string == type.string }
                }
                #expect(count > 0, "\(status) \(problem.rawValue)")
            }
        }
    }

    /// All values of `$ref` below a value.
    private static func references(in value: JSON) -> [String] {
        value.array.flatMap(references)
            + value.object.flatMap { key, value in key == "$ref" ? [value.string ?? ""] : references(in: value) }
    }

    @Test("each schema is used, and each that is used is there")
    func schemas() throws {
        let document = try Self.document()
        #expect(document["openapi"].string == "3.1.0")
        #expect(document["components"]["securitySchemes"]["adminToken"]["scheme"].string == "bearer")
        let used = Set(Self.references(in: document).map { String($0.trimmingPrefix("#/components/schemas/")) })
        #expect(used == Set(document["components"]["schemas"].object.keys))
    }

    @Test("HTTP/2 in the status: both sides by the members of the schema, and only reasons that have a number")
    func http2() throws {
        var activity = ProgramActivity()
        (activity.http2.clients.connections, activity.http2.clients.openStreams) = (2, 3)
        (activity.http2.clients.streams, activity.http2.clients.peerResets) = (40, 5)
        activity.http2.clients.limitsPassed = ["resets": 1]
        (activity.http2.upstreams.refusals, activity.http2.upstreamEnds) = (7, ["ping_timeout": 1, "goaway": 2])
        activity.http2.downgradedRoutes = ["orders"]
        let snapshot = HealthSnapshot(users: [], activeUser: nil, followsActiveUser: false, pinnedUsers: [])
        var body = JSONWriter()
        body.beginObject()
        AdminResponses.write(activity, AdminPage(), HealthReport(snapshot), now: .now, wallNow: .now, into: &body)
        body.endObject()
        let http2 = try JSON(body.bytes)["http2"]
        let expected = try JSON(
            text: """
                {"clients": {"connections": 2, "open_streams": 3, "streams": 40, "resets": {"peer": 5, "refused": 0},
                 "limits_passed": {"resets": 1}},
                 "upstreams": {"connections": 0, "open_streams": 0, "streams": 0, "resets": {"peer": 0, "refused": 7},
                 "limits_passed": {}, "ends": {"goaway": 2, "ping_timeout": 1}, "downgraded": ["orders"]}}
                """)
        #expect(http2 == expected)
        let schema = try Self.document()["components"]["schemas"]["HTTP2Side"]
        let members = Set(schema["required"].array.compactMap(\.string))
        #expect(Set(http2["clients"].object.keys) == members && Set(schema["properties"].object.keys) == members)
        #expect(Set(http2["upstreams"].object.keys) == members.union(["ends", "downgraded"]))
    }

    @Test("it is served with GET and HEAD; the members of a status and a user are those of their schemas")
    func served() async throws {
        let server = try AdminServer()
        let response = try await server.ask("GET", "/v1/openapi.json")
        #expect(response.status == 200 && response["Content-Type"] == "application/json")
        #expect(response.body == AdminDocument.response.body)
        #expect(try await server.ask("HEAD", "/v1/openapi.json").status == 200)
        let schemas = try Self.document()["components"]["schemas"]
        let status = try await server.ask("GET", "/v1/status").json
        #expect(Set(status.object.keys) == Set(schemas["Status"]["required"].array.compactMap(\.string)))
        let members = Set(schemas["User"]["properties"].object.keys)
        for user in status["users"].array { #expect(Set(user.object.keys) == members) }
        #expect(server.log.lines("admin.call").isEmpty)
    }
}
