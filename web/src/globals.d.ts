// Values that the build puts in place.
declare const __BUNDLE_VERSION__: string;
declare const __NOTICE_TEXTS__: typeof import("./texts.ts").texts.notices;
