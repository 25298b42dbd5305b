//! Each of dtrace's tags by the scripts that bring it about.

mod shared;

use dwell_script::{Input, Macros, Options, Tag, compile};

/// A tag's name without `D_`, and sources that are refused with it. A source that holds a brace is a whole script,
/// anything else the body of a clause.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "SYNTAX",
        &[
            "10ms { }",
            "BEGIN {",
            "unknown_t *x; BEGIN { }",
            "BEGIN { trace(1 }",
            "trace(1) trace(2)",
            "x = ;",
            "1.5",
            "BEGIN / 1 /",
            "self->",
            "a[]",
            "@a[",
            "BEGIN { /* open }",
            "/* /* */ */",
            "if (1",
            "BEGIN { trace(1); } }",
            "(((1)",
            "return 1",
            "for (;;) x++",
            "printf(\"%\")",
            "printf(\"%q\", 1)",
            "printf(\"%**d\", 1, 2)",
            "printf(\"%.*.*d\", 1, 2, 3)",
            "printf(\"%1$d\", 1)",
            "printf(\"%5%\")",
            "struct foo { }; BEGIN { }",
            "enum foo { }; BEGIN { }",
            "struct foo { int x }",
            "translator struct node < int > { };",
            "\u{e9}",
            "this",
            "BEGIN { \u{0} }",
            "x = 0x",
            "x = 1uu",
            "x = 1lll",
            "`",
        ],
    ),
    ("UNKNOWN", &["struct foo { int x; char x; }; BEGIN { }"]),
    (
        "EMPTY",
        &["/* nothing {} */", "#!/usr/sbin/dtrace -s\n/* {} */"],
    ),
    ("TYPE_ERR", &["trace((unknown_t *)0)"]),
    (
        "TYPE_MEMBER",
        &["trace(`root.kye)", "trace(offsetof(struct node, nothing))"],
    ),
    ("CG_EXPR", &["x = stack()", "x = usym(1)", "count()"]),
    ("PDESC_ZERO", &["pid1:a.out:nowhere:entry { }"]),
    (
        "PDESC_INVAL",
        &[
            "a:b:c:d:e { }",
            "99999999999 { }",
            "pid1:\"a:entry { }",
            "syscall::[ab:entry { }",
        ],
    ),
    (
        "PRED_SCALAR",
        &[
            "BEGIN /trace(1)/ { }",
            "BEGIN /execname/ { }",
            "BEGIN /`root/ { }",
            "int a[4]; BEGIN /a/ { }",
        ],
    ),
    ("FUNC_IDENT", &["(1)(2)", "self->x(1)"]),
    ("FUNC_UNDEF", &["strlne(\"x\")", "panic()"]),
    ("FUNC_IDKIND", &["pid(1)", "x = 1; x(2)"]),
    ("OFFSETOF_TYPE", &["trace(offsetof(int, x))"]),
    (
        "OFFSETOF_BITFIELD",
        &["trace(offsetof(struct node, flags))"],
    ),
    (
        "SIZEOF_TYPE",
        &["trace(sizeof (void))", "trace(sizeof (struct hidden))"],
    ),
    ("SIZEOF_BITFIELD", &["trace(sizeof (`root.flags))"]),
    ("STRINGOF_TYPE", &["trace(stringof(`root))"]),
    (
        "OP_INT",
        &[
            "trace(~execname)",
            "trace(1 % `ratio)",
            "x = 1; x %= execname",
            "trace(1 << \"a\")",
        ],
    ),
    (
        "OP_SCALAR",
        &[
            "trace(!execname)",
            "trace(execname && 1)",
            "trace(execname ? 1 : 2)",
            "s = \"a\"; s++",
            "if (execname) trace(1)",
        ],
    ),
    (
        "OP_ARITH",
        &[
            "trace(-execname)",
            "trace(+execname)",
            "trace(execname * 2)",
            "trace(`ratio / 2)",
            "x = 1; x *= execname",
        ],
    ),
    (
        "OP_WRITE",
        &[
            "pid = 1",
            "pid++",
            "execname++",
            "`counter = 1",
            "`root.key = 2",
            "args[1] = 3",
            "`tls = 1",
        ],
    ),
    (
        "OP_LVAL",
        &["1 = 2", "(x = 1) = 2", "strlen(\"a\") = 1", "1++"],
    ),
    (
        "OP_INCOMPAT",
        &[
            "x = @a",
            "x = count()",
            "x = 1 + trace(1)",
            "trace(1 + @a)",
            "trace((void *)1 + 1)",
            "x = 1; x = \"a\"",
            "trace(\"a\" == 1)",
            "trace((char *)0 + (char *)0)",
            "trace(1 ? \"a\" : 2)",
            "x = bcopy((void *)1, (void *)1, 1)",
            "trace((int *)1 == (struct node *)1)",
            "inline string S = 5; BEGIN { }",
            "s = \"a\"; s += 1",
            "trace(`root + 1)",
        ],
    ),
    (
        "OP_VFPTR",
        &[
            "p = (void *)0; p += 1",
            "p = (void *)0; p++",
            "p = (struct hidden *)0; p++",
        ],
    ),
    ("OP_ARRFUN", &["int a[3]; BEGIN { a = 0; }", "x = `table"]),
    ("OP_PTR", &["trace(`root->key)", "trace(pid->x)"]),
    ("OP_SOU", &["trace(((int *)0)->x)", "x = 1; trace(x.y)"]),
    (
        "OP_INCOMPLETE",
        &[
            "trace(((struct hidden *)0)->x)",
            "trace(*(struct hidden *)0)",
        ],
    ),
    ("OP_DYN", &["trace((@a, 1))"]),
    ("OP_ACT", &["trace(1), trace(2)", "x = 1 ? trace(1) : 2"]),
    ("AGG_REDEF", &["@a = count(); @a = sum(1)"]),
    (
        "AGG_FUNC",
        &["@a = 1", "@a = strlen(\"x\")", "@a += 1", "@a++"],
    ),
    ("AGG_MDIM", &["@a[1][2] = count()"]),
    ("AGG_NULL", &["@a", "@a[1]"]),
    (
        "AGG_SCALAR",
        &["@a = sum(execname)", "@a = quantize(`root)"],
    ),
    ("AGG_COMM", &["commit(1); @a = count()"]),
    ("AGG_SPEC", &["speculate(1); @a = count()"]),
    ("ARR_BADREF", &["trace(`table[1, 2])"]),
    ("ARR_LOCAL", &["this->a[1] = 2"]),
    (
        "ARR_BOUNDS",
        &["trace(`table[4])", "int a[3]; BEGIN { a[3] = 1; }"],
    ),
    (
        "DIV_ZERO",
        &["trace(1 / 0)", "trace(pid % 0)", "x = 1; x /= 0"],
    ),
    ("DEREF_NONPTR", &["trace(*1)", "trace(*`root)"]),
    ("DEREF_VOID", &["trace(*(void *)1)"]),
    (
        "DEREF_FUNC",
        &["typedef int fn(int); BEGIN { trace(*(fn *)1); }"],
    ),
    (
        "ADDROF_LVAL",
        &["trace(&1)", "trace(&pid)", "trace(&trace(1))"],
    ),
    (
        "ADDROF_VAR",
        &["x = 1; trace(&x)", "a[1] = 1; trace(&a[1])"],
    ),
    ("ADDROF_BITFIELD", &["trace(&`root.flags)"]),
    (
        "XLATE_REDECL",
        &[
            "translator struct node < int *p > { key = *p; }; translator struct node < int *p > { key = *p; }; BEGIN { }",
        ],
    ),
    (
        "XLATE_NOCONV",
        &[
            "translator struct node < int *p > { key = *p; }; BEGIN { trace(xlate <struct node>((int *)1).next); }",
        ],
    ),
    ("XLATE_NONE", &["trace(xlate <struct node>(1).key)"]),
    (
        "XLATE_SOU",
        &["translator int < int *p > { key = *p; }; BEGIN { }"],
    ),
    (
        "XLATE_INCOMPAT",
        &["translator struct node < int *p > { key = \"a\"; }; BEGIN { }"],
    ),
    (
        "XLATE_MEMB",
        &["translator struct node < int *p > { kye = *p; }; BEGIN { }"],
    ),
    (
        "CAST_INVAL",
        &["trace((struct node)1)", "trace((int)`root)"],
    ),
    (
        "PRAGERR",
        &[
            "#error no {}\nBEGIN { }",
            "#pragma D error no {}\nBEGIN { }",
        ],
    ),
    (
        "PRAGCTL_INVAL",
        &["#include <a.h>\nBEGIN { }", "#frob\nBEGIN { }"],
    ),
    (
        "PRAGMA_INVAL",
        &[
            "#pragma D nothing x\nBEGIN { }",
            "#pragma D depends_on nothing x\nBEGIN { }",
        ],
    ),
    (
        "PRAGMA_MALFORM",
        &[
            "#pragma D option\nBEGIN { }",
            "#pragma D option a b\nBEGIN { }",
            "#pragma D attributes x\nBEGIN { }",
            "#pragma D depends_on x\nBEGIN { }",
            "# 99999999999\nBEGIN { }",
            "#line x\nBEGIN { }",
        ],
    ),
    (
        "PRAGMA_OPTSET",
        &[
            "#pragma D option quite\nBEGIN { }",
            "#pragma D option bufsize=4q\nBEGIN { }",
            "#pragma D option nspec=-1\nBEGIN { }",
            "#pragma D option define=X\nBEGIN { }",
        ],
    ),
    (
        "PRAGMA_DEPEND",
        &["#pragma D depends_on library x.d\nBEGIN { }"],
    ),
    (
        "MACRO_UNDEF",
        &[
            "trace($3)",
            "x = $",
            "trace($$3)",
            "trace($nothing)",
            "pid$nothing:::entry { }",
            "pid$7:::entry { }",
        ],
    ),
    ("MACRO_OFLOW", &["trace($1); trace($2)"]),
    ("MACRO_UNUSED", &["BEGIN { trace($1 == \"x\"); }"]),
    (
        "INT_OFLOW",
        &["trace(18446744073709551616)", "trace(9223372036854775808)"],
    ),
    ("INT_DIGIT", &["trace(08)", "trace(0x1g)", "trace(12ab)"]),
    ("STR_NL", &["trace(\"a\n\")"]),
    ("CHR_NL", &["trace('a\n')"]),
    ("CHR_NULL", &["trace('')"]),
    ("CHR_OFLOW", &["trace('123456789')"]),
    (
        "IDENT_BADREF",
        &[
            "a[1] = 2; trace(a)",
            "x = 1; trace(x[1])",
            "trace(strlen)",
            "trace(args)",
        ],
    ),
    (
        "IDENT_UNDEF",
        &[
            "trace(timestmap)",
            "x = y + 1",
            "trace(`countre)",
            "BEGIN /nothing/ { trace(1); }",
        ],
    ),
    ("IDENT_AMBIG", &["GREEN = 1; trace(`shade == GREEN)"]),
    ("SYM_NOTYPES", &["trace(`bare)"]),
    (
        "VAR_UNDEF",
        &[
            "trace(self->x)",
            "trace(this->x)",
            "trace(a[1])",
            "BEGIN /self->x/ { }",
        ],
    ),
    ("VAR_UNSUP", &["n[1] = `root; trace(n[1].flags)"]),
    (
        "PROTO_LEN",
        &[
            "clear()",
            "@a = count(); clear(@a, 1)",
            "@a = count(); normalize(@a)",
            "denormalize()",
            "stack(1, 2)",
            "ustack(1, 2, 3)",
            "copyout(1)",
            "breakpoint(1)",
            "printa()",
            "trace()",
            "trace(1, 2)",
            "strlen()",
            "substr(\"a\")",
            "exit()",
            "@a = count(1)",
            "@a = quantize(1, 2, 3)",
            "a[1] = 1; a[1, 2] = 3",
            "@a[1] = count(); @a = count()",
            "trace(args[1, 2])",
            "trace(uregs[1, 2])",
            "inline int f[int a] = a; BEGIN { trace(f[1, 2]); }",
            "@a = lquantize(1, 0, 10, 1, 1, 1)",
        ],
    ),
    (
        "PROTO_ARG",
        &[
            "@a = count(); normalize(@a, \"x\")",
            "printf(1)",
            "stack(\"a\")",
            "ustack(\"a\")",
            "ustack(1, \"a\")",
            "exit(trace(1))",
            "trace(strlen(5))",
            "exit(\"a\")",
            "trace(copyinstr(\"a\"))",
            "a[1] = 1; a[\"x\"] = 2",
            "@a[1] = count(); @a[\"x\"] = count()",
            "trace(args[pid])",
            "trace(uregs[pid])",
            "@c = count(); trunc(@c, \"x\")",
            "@a = quantize(1, \"x\")",
            "bcopy(1, 2, 3)",
        ],
    ),
    ("ARGS_MULTI", &["pid1:a:many*:entry { trace(args[0]); }"]),
    ("ARGS_NONE", &["inline int first = args[0]; BEGIN { }"]),
    ("ARGS_TYPE", &["pid1:a:insert:entry { trace(args[4]); }"]),
    (
        "ARGS_IDX",
        &[
            "pid1:a:insert:entry { trace(args[5]); }",
            "pid1:a:insert:entry { trace(args[-1]); }",
            "BEGIN { trace(args[0]); }",
        ],
    ),
    ("REGS_IDX", &["trace(uregs[21])", "trace(uregs[-1])"]),
    (
        "KEY_TYPE",
        &[
            "@b[@a] = count()",
            "@b[trace(1)] = count()",
            "@a[(void)1] = count()",
            "a[bcopy((void *)1, (void *)1, 1)] = 1",
        ],
    ),
    ("PRINTF_DYN_PROTO", &["printf(\"%*d\")", "printf(\"%.*d\")"]),
    (
        "PRINTF_DYN_TYPE",
        &[
            "printf(\"%*d\", \"a\", 1)",
            "printf(\"%.*d\", \"a\", 1)",
            "printf(\"%*d\", exit(1), 1)",
        ],
    ),
    ("PRINTF_AGG_CONV", &["printf(\"%@d\", 1)"]),
    (
        "PRINTF_ARG_PROTO",
        &[
            "printf(\"%d\")",
            "printf(\"%d %s\", 1)",
            "@a[1] = count(); printa(\"%d %d %@d\", @a)",
        ],
    ),
    (
        "PRINTF_ARG_TYPE",
        &[
            "printf(\"%d\", @a)",
            "printf(\"%s\", 1)",
            "printf(\"%d\", \"a\")",
            "printf(\"%Y\", pid)",
            "printf(\"%k\", 1)",
            "printf(\"%f\", 1)",
            "printf(\"%c\", 1LL)",
            "printf(\"%hd\", 1)",
            "printf(\"%d\", `root)",
            "printf(\"%d\", exit(1))",
            "@a[1] = count(); printa(\"%s %@d\", @a)",
            "printf(\"%a\", usym(1))",
        ],
    ),
    (
        "PRINTF_ARG_EXTRA",
        &["printf(\"%d\", 1, 2)", "printf(\"x\", 1)"],
    ),
    ("PRINTF_ARG_FMT", &["printf(execname)"]),
    ("PRINTF_FMT_EMPTY", &["printf(\"\")"]),
    ("DECL_CHARATTR", &["long char x; BEGIN { }"]),
    ("DECL_VOIDATTR", &["unsigned void *x; BEGIN { }"]),
    (
        "DECL_SIGNINT",
        &[
            "unsigned struct node x; BEGIN { }",
            "signed double x; BEGIN { }",
            "unsigned string x; BEGIN { }",
        ],
    ),
    (
        "DECL_LONGINT",
        &["long struct node x; BEGIN { }", "long string x; BEGIN { }"],
    ),
    ("DECL_CLASS", &["static typedef int x; BEGIN { }"]),
    (
        "DECL_BADCLASS",
        &[
            "static int x; BEGIN { }",
            "inline static int x = 1; BEGIN { }",
        ],
    ),
    ("DECL_PARMCLASS", &["int x[int, static int]; BEGIN { }"]),
    (
        "DECL_COMBO",
        &[
            "int struct node x; BEGIN { }",
            "int char x; BEGIN { }",
            "short long x; BEGIN { }",
        ],
    ),
    (
        "DECL_ARRSUB",
        &["int x[-1]; BEGIN { }", "int x[\"a\"]; BEGIN { }"],
    ),
    (
        "DECL_ARRNULL",
        &[
            "int x[]; BEGIN { }",
            "inline int x[5] = 1; BEGIN { }",
            "inline int x[int] = 1; BEGIN { }",
        ],
    ),
    (
        "DECL_ARRBIG",
        &[
            "int x[0x7fffffff]; BEGIN { }",
            "struct big { int x[0x10000000]; int y[0x10000000]; int z[0x10000000]; int w[0x10000000]; int v; }; BEGIN { }",
        ],
    ),
    (
        "DECL_IDRED",
        &[
            "int x; string x; BEGIN { }",
            "int pid; BEGIN { }",
            "inline int x = 1; inline int x = 2; BEGIN { }",
            "typedef int t; typedef string t; BEGIN { }",
            "enum { A, A }; BEGIN { }",
            "int x; typedef int x; BEGIN { }",
            "int x; int x[int]; BEGIN { }",
        ],
    ),
    (
        "DECL_TYPERED",
        &[
            "struct a { int x; }; struct a { int y; }; BEGIN { }",
            "enum e { P }; enum e { Q }; BEGIN { }",
        ],
    ),
    (
        "DECL_MNAME",
        &[
            "struct a { int; }; BEGIN { }",
            "struct a { int *; }; BEGIN { }",
        ],
    ),
    ("DECL_SCOPE", &["int a`b; BEGIN { }"]),
    (
        "DECL_BFCONST",
        &[
            "struct a { int x : 0; }; BEGIN { }",
            "struct a { int x : -1; }; BEGIN { }",
            "struct a { int x : pid; }; BEGIN { }",
        ],
    ),
    ("DECL_BFSIZE", &["struct a { int x : 33; }; BEGIN { }"]),
    ("DECL_BFTYPE", &["struct a { int *x : 3; }; BEGIN { }"]),
    ("DECL_ENCONST", &["enum { A = pid }; BEGIN { }"]),
    ("DECL_ENOFLOW", &["enum { A = 0x7fffffff, B }; BEGIN { }"]),
    (
        "DECL_USELESS",
        &["int; BEGIN { }", "inline int = 3; BEGIN { }"],
    ),
    ("DECL_LOCASSC", &["this int x[int]; BEGIN { }"]),
    (
        "DECL_VOIDOBJ",
        &[
            "void x; BEGIN { }",
            "void x[3]; BEGIN { }",
            "struct a { void x; }; BEGIN { }",
            "inline void x = 1; BEGIN { }",
        ],
    ),
    (
        "DECL_DYNOBJ",
        &[
            "struct a { int x[int]; }; BEGIN { }",
            "typedef int t[int]; BEGIN { }",
            "trace((int [int])1)",
            "int x[3][int]; BEGIN { }",
        ],
    ),
    ("DECL_PROTO_VARARGS", &["int a[...]; BEGIN { }"]),
    (
        "DECL_PROTO_TYPE",
        &["int a[void]; BEGIN { }", "int f(int a[int]); BEGIN { }"],
    ),
    ("DECL_PROTO_VOID", &["int f(int, void); BEGIN { }"]),
    ("DECL_PROTO_NAME", &["int f(void v); BEGIN { }"]),
    (
        "DECL_INCOMPLETE",
        &[
            "struct hidden x; BEGIN { }",
            "struct a { struct hidden x; }; BEGIN { }",
            "inline struct hidden x = 1; BEGIN { }",
        ],
    ),
    (
        "COMM_DREC",
        &["trace(1); commit(1)", "@a = count(); commit(1)"],
    ),
    ("SPEC_SPEC", &["speculate(1); speculate(1)"]),
    ("SPEC_COMM", &["commit(1); speculate(1)"]),
    ("SPEC_DREC", &["trace(1); speculate(1)"]),
    (
        "ACT_SPEC",
        &["#pragma D option destructive\nBEGIN { speculate(1); stop(); }"],
    ),
    ("EXIT_SPEC", &["speculate(1); exit(0)"]),
    ("DREC_COMM", &["commit(1); exit(0)", "commit(1); trace(1)"]),
    ("PRINTA_PROTO", &["printa(\"%d\")"]),
    (
        "PRINTA_AGGARG",
        &[
            "printa(1, 2)",
            "@a = count(); printa(@a, 1)",
            "printa(\"%d\", 1)",
        ],
    ),
    ("PRINTA_AGGBAD", &["printa(@nothing)"]),
    (
        "PRINTA_AGGKEY",
        &["@a[1] = count(); @b[1, 2] = count(); printa(\"%@d %@d\", @a, @b)"],
    ),
    (
        "PRINTA_AGGPROTO",
        &["@a[1] = count(); @b[\"x\"] = count(); printa(\"%@d %@d\", @a, @b)"],
    ),
    ("TRACE_VOID", &["trace(trace(1))", "trace((void)1)"]),
    ("TRACE_DYN", &["trace(@a)"]),
    ("TRACEMEM_ADDR", &["tracemem(`root, 4)"]),
    ("TRACEMEM_SIZE", &["tracemem(1, 0)", "tracemem(1, pid)"]),
    ("STACK_SIZE", &["stack(0)", "stack(pid)"]),
    ("USTACK_FRAMES", &["ustack(0)"]),
    ("USTACK_STRSIZE", &["ustack(1, pid)", "ustack(1, -1)"]),
    ("ALLOCA_SIZE", &["x = alloca(1000000000)"]),
    ("LQUANT_BASETYPE", &["@a = lquantize(1, pid, 10)"]),
    ("LQUANT_BASEVAL", &["@a = lquantize(1, 0x100000000, 10)"]),
    ("LQUANT_LIMTYPE", &["@a = lquantize(1, 0, pid)"]),
    ("LQUANT_LIMVAL", &["@a = lquantize(1, 0, 0x100000000)"]),
    (
        "LQUANT_MISMATCH",
        &["@a = lquantize(1, 10, 0)", "@a = lquantize(1, 5, 5)"],
    ),
    (
        "LQUANT_STEPTYPE",
        &[
            "@a = lquantize(1, 0, 10, pid)",
            "@a = lquantize(1, 0, 10, 0)",
        ],
    ),
    ("LQUANT_STEPVAL", &["@a = lquantize(1, 0, 10, 65536)"]),
    ("LQUANT_STEPLARGE", &["@a = lquantize(1, 0, 10, 11)"]),
    ("LQUANT_STEPSMALL", &["@a = lquantize(1, 0, 100000, 1)"]),
    (
        "LQUANT_MATCHBASE",
        &["@a = lquantize(1, 0, 10, 1); @a = lquantize(1, 1, 10, 1)"],
    ),
    (
        "LQUANT_MATCHLIM",
        &["@a = lquantize(1, 0, 10, 1); @a = lquantize(1, 0, 11, 1)"],
    ),
    (
        "LQUANT_MATCHSTEP",
        &["@a = lquantize(1, 0, 10, 1); @a = lquantize(1, 0, 10, 2)"],
    ),
    ("LLQUANT_FACTORTYPE", &["@a = llquantize(1, pid, 0, 6, 10)"]),
    (
        "LLQUANT_FACTORVAL",
        &[
            "@a = llquantize(1, 1, 0, 6, 10)",
            "@a = llquantize(1, 65536, 0, 6, 10)",
        ],
    ),
    ("LLQUANT_LMAGTYPE", &["@a = llquantize(1, 10, pid, 6, 10)"]),
    ("LLQUANT_LMAGVAL", &["@a = llquantize(1, 10, -1, 6, 10)"]),
    ("LLQUANT_HMAGTYPE", &["@a = llquantize(1, 10, 0, pid, 10)"]),
    (
        "LLQUANT_HMAGVAL",
        &[
            "@a = llquantize(1, 10, 3, 2, 10)",
            "@a = llquantize(1, 10, 0, 30, 10)",
            "@a = llquantize(1, 10, 0, 65536, 10)",
        ],
    ),
    (
        "LLQUANT_STEPTYPE",
        &[
            "@a = llquantize(1, 10, 0, 6, -1)",
            "@a = llquantize(1, 10, 0, 6, pid)",
            "@a = llquantize(1, 10, 0, 6, 0)",
        ],
    ),
    (
        "LLQUANT_STEPVAL",
        &[
            "@a = llquantize(1, 10, 0, 6, 3)",
            "@a = llquantize(1, 10, 0, 6, 15)",
            "@a = llquantize(1, 10, 0, 6, 30)",
            "@a = llquantize(1, 10, 1, 6, 30)",
        ],
    ),
    (
        "LLQUANT_MATCHFACTOR",
        &["@a = llquantize(1, 10, 0, 6, 10); @a = llquantize(1, 20, 0, 6, 20)"],
    ),
    (
        "LLQUANT_MATCHLMAG",
        &["@a = llquantize(1, 10, 0, 6, 10); @a = llquantize(1, 10, 1, 6, 10)"],
    ),
    (
        "LLQUANT_MATCHHMAG",
        &["@a = llquantize(1, 10, 0, 6, 10); @a = llquantize(1, 10, 0, 5, 10)"],
    ),
    (
        "LLQUANT_MATCHSTEPS",
        &["@a = llquantize(1, 10, 0, 6, 10); @a = llquantize(1, 10, 0, 6, 5)"],
    ),
    ("CLEAR_AGGARG", &["clear(1)"]),
    ("CLEAR_AGGBAD", &["clear(@nothing)"]),
    ("NORMALIZE_AGGARG", &["normalize(1, 2)", "denormalize(1)"]),
    (
        "NORMALIZE_AGGBAD",
        &["normalize(@nothing, 2)", "denormalize(@nothing)"],
    ),
    ("TRUNC_AGGARG", &["trunc(1)"]),
    ("TRUNC_AGGBAD", &["trunc(@nothing)"]),
    (
        "PROV_BADNAME",
        &["provider p1 { probe a(int); }; BEGIN { }"],
    ),
    ("FREOPEN_INVALID", &["freopen(\".\")"]),
    ("PRINT_SIZE", &["print((void)1)"]),
    (
        "DESTRUCTIVE",
        &[
            "system(\"ls\")",
            "stop()",
            "raise(9)",
            "chill(1)",
            "copyout((void *)1, 1, 1)",
            "freopen(\"x\")",
        ],
    ),
];

/// What a snippet is refused with. `$1` is too large an integer, so that the snippets can use it.
fn refusal(snippet: &str) -> Result<String, dwell_script::Error> {
    let source = match snippet.contains('{') {
        true => snippet.to_owned(),
        false => format!("pid1:a:insert:entry {{ {snippet}; }}"),
    };
    let arguments = match snippet.contains("$1") {
        true => vec!["x.d", "99999999999999999999", "2"],
        false => vec!["x.d"],
    };
    let source = source.replace("$1 == \"x\"", "$2 == 1"); // So that $1 stays unused.
    let input = Input {
        source: &source,
        macros: Macros {
            arguments,
            variables: vec![("target", 1), ("pid", 2)],
        },
        options: Options::default(),
        ..Input::default()
    };
    compile(&input, &shared::Small).map(|(script, _)| script.to_string())
}

#[test]
fn snippets_are_refused_with_their_tags() {
    let mut wrong = Vec::new();
    for (name, snippets) in REFUSED {
        for snippet in *snippets {
            match refusal(snippet) {
                Ok(script) => {
                    wrong.push(format!("{snippet}: accepted, D_{name} expected: {script}"))
                }
                Err(error) if error.tag.name().strip_prefix("D_") != Some(name) => {
                    wrong.push(format!("{snippet}: D_{name} expected: {error}"));
                }
                Err(_) => {}
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_tag_has_a_snippet() {
    let missing: Vec<_> = Tag::ALL
        .iter()
        .filter(|tag| {
            !REFUSED
                .iter()
                .any(|(name, _)| tag.name().strip_prefix("D_") == Some(name))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn messages_name_file_and_line_and_show_the_place() {
    let source = "# 7 \"real.d\"\nBEGIN\n{\n\ttrace(timestmap);\n}\n";
    let error = refusal(source).expect_err("there is no such variable");
    assert_eq!(
        error.to_string(),
        "[D_IDENT_UNDEF] \"real.d\", line 9: failed to resolve timestmap: Unknown variable name"
    );
    assert_eq!(
        error.excerpt(),
        "   trace(timestmap);\n         ^^^^^^^^^\n  did you mean timestamp?\n"
    );
}
