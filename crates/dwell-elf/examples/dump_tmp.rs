use dwell_abi::unwind::*; use dwell_elf::{ElfFile, unwind};
fn main(){ let a:Vec<String>=std::env::args().collect(); let d=std::fs::read(&a[1]).unwrap(); let f=ElfFile::parse(&d).unwrap(); let t=unwind::compile(&f).unwrap();
 let kind:u8=a[2].parse().unwrap();
 let lo=a.get(3).map_or(0,|s|u64::from_str_radix(s,16).unwrap()); let hi=a.get(4).map_or(u64::MAX,|s|u64::from_str_radix(s,16).unwrap());
 for (i,r) in t.rows.iter().enumerate(){ let p=t.text_start+r.pc as u64; let n=t.rows.get(i+1).map_or(t.text_end,|n|t.text_start+n.pc as u64); if (r.kind==kind||kind==99)&&p>=lo&&p<hi { println!("{:x}..{:x} {} {:?}",p,n,n-p,r);} } let _=KIND_END; }
