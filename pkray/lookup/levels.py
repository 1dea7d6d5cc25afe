import numpy as np, pyarrow as pa
from pkray.lsm.merge import is_add
def lookup_levels(store, source, levels, keys, columns, schema, engine, keep_deletes=False):
    left = np.arange(keys.num_rows); pos=[]; tabs=[]
    for run in levels.runs():
        for f in run.files:
            if not len(left): break
            q, rows = store.find(source, f, pa.Table.from_batches([keys]).take(pa.array(left)), columns)
            if len(q):
                pos.append(left[q]); tabs.append(rows); left=np.delete(left, q)
    names=["_SEQUENCE_NUMBER","_VALUE_KIND",*columns]
    if not tabs:
        s=pa.schema([pa.field(names[0],pa.int64()),pa.field(names[1],pa.int8()),*[schema.arrow_schema.field(c) for c in columns]])
        return np.empty(0,np.int64), s.empty_table()
    t=pa.concat_tables(tabs); p=np.concatenate(pos)
    if not keep_deletes:
        k=is_add(t["_VALUE_KIND"].combine_chunks()); t=t.filter(pa.array(k)); p=p[k]
    return p,t
