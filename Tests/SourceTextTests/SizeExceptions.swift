/// What is larger than `SizeLimitTests` allows, with its present size. An entry is lowered or removed when it can be, and none is added.
enum SizeExceptions {
    /// Stored properties of a type.
    static let types: [String: Int] = [
        "Lanyard.Program": 21,
        "Lanyard.ShutdownCoordinator": 16,
        "LanyardAdmin.OperatorConnection": 26,
        "LanyardAdmin.OperatorListener": 16,
        "LanyardClient.UserReport": 15,
        "LanyardConfiguration.Configuration": 18,
        "LanyardEmulator.EmulatorOptions": 20,
        "LanyardEmulator.EmulatorSession": 15,
        "LanyardEmulator.ServiceState": 18,
        "LanyardEmulatorTool.ServeCommand": 23,
        "LanyardFoundations.EventLoop": 27,
        "LanyardIdentity.CurlTransfer": 23,
        "LanyardIdentity.OAuthIdentity": 16,
        "LanyardIdentity.OAuthIdentity.TokenCall": 20,
        "LanyardIdentity.OAuthResponse": 19,
        "LanyardRequestPath.AccessLog": 15,
        "LanyardRequestPath.AccessLog.Layout": 20,
        "LanyardRequestPath.Problem": 14,
        "LanyardRequestPath.Route": 28,
        "LanyardRequestPath.ServedConfiguration": 13,
        "LanyardRequestPath.UpstreamPool": 21,
        "LanyardSettings.LimitSettings": 16,
        "LanyardSettings.RouteSettings": 30,
        "LanyardTool.CredentialOptions": 20,
    ]

    /// Lines of a function, from its keyword to its closing brace.
    static let functions: [String: Int] = [
        "Lanyard.Lanyard.run": 86,
        "Lanyard.Program.init": 90,
        "LanyardAdmin.AdminHandler.perform": 89,
        "LanyardAdmin.AdminResponses.write": 79,
        "LanyardSessionInterface.StoreSlice.make": 98,
        "LanyardSessions.SessionLogEvent.message": 86,
        "LanyardSessions.StoredRelation.resolutions": 63,
    ]

    /// Lines of a file below `Sources`.
    static let files: [String: Int] = [
        "LanyardAdmin/Operator/OperatorConnection.swift": 422,
        "LanyardFoundations/EventLoop/EventLoop.swift": 505,
        "LanyardIdentity/AppServices/AppServicesIdentity.swift": 428,
        "LanyardIdentity/Curl/CurlTransfer.swift": 611,
        "LanyardIdentity/OAuth/OAuthIdentity.swift": 725,
        "LanyardRequestPath/Exchange/Messages/ClientReferences.swift": 459,
        "LanyardRequestPath/Forwarding/UpstreamPool.swift": 442,
        "LanyardRequestPath/Streams/ByteStream.swift": 452,
        "LanyardRequestPath/TLS/TLSSession.swift": 481,
        "LanyardSessions/Coordination/SessionCoordinator+CallOutcomes.swift": 435,
        "LanyardSessions/Coordination/SessionCoordinator+Variants.swift": 445,
        "LanyardSessions/Coordination/SessionCoordinator.swift": 477,
        "LanyardSessions/Service/SessionRunner.swift": 656,
        "LanyardSessions/Service/SessionService.swift": 610,
    ]
}
